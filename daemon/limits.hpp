// SPDX-License-Identifier: Apache-2.0
// The daemon's own bounds. What both ends must agree on is in wire/limits.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpuwire::daemon::limits {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Main process.
inline constexpr std::size_t handshakes_pending_max = 256;  // above it the oldest is closed
inline constexpr milliseconds handshake_deadline{5'000};
inline constexpr std::size_t sessions_default_max = 256;
inline constexpr std::size_t connections_per_session_max = 16;
inline constexpr std::size_t token_bytes_min = 1;
inline constexpr milliseconds probe_deadline{
    60'000};  // cuInit of a cold driver may take many seconds
inline constexpr milliseconds drain_deadline{
    2'000};  // SIGTERM: workers that are still there are killed

// NVML helper.
inline constexpr std::size_t nvml_connections_max = 1024;
inline constexpr seconds nvml_idle{30};  // without a client for so long, the helper ends

inline constexpr std::size_t tickets_per_session_max = 16384;  // what a session may share
inline constexpr seconds ticket_deadline{5};                   // for the main process to answer a worker

// Worker.
inline constexpr milliseconds lost_grace{
    1'000};  // all connections ended without goodbye; stated outside: 1.5 s
inline constexpr std::size_t lanes_max = 4096;
inline constexpr microseconds executor_spin{
    50};  // before the executor blocks; also how long it polls the newest wait
inline constexpr microseconds waiter_spin{
    1'000};  // a handed-over wait polls this long, then blocks in the driver
inline constexpr std::uint32_t handle_index_end = 1u << 20;
inline constexpr std::uint32_t explicit_context_first = 64;

// Pinned staging memory. Blocks of one pool are powers of two.
inline constexpr std::size_t staging_block_bytes_min = 4u << 10;
inline constexpr std::size_t staging_inline_bytes_max = 96u << 20;
inline constexpr std::size_t staging_bulk_bytes_max = 96u << 20;
inline constexpr std::size_t staging_slab_bytes = 4u << 20;
inline constexpr std::size_t transfer_blocks_max = 8;  // of one large transfer
inline constexpr std::size_t direct_copy_bytes_max =
    64u << 10;  // the driver stages a pageable copy of this size at once

// Memory that stands for pinned memory of the client, a session; never more than a quarter of the machine's.
inline constexpr std::uint64_t mirror_bytes_max = std::uint64_t{16} << 30;
inline constexpr microseconds delivery_sleep_min{20};
inline constexpr microseconds delivery_sleep_max{1'000};
// Memory at the client's addresses.
inline constexpr std::uint64_t direct_window_bytes_max = std::uint64_t{1} << 40;
inline constexpr std::size_t direct_delta_bytes_max = 1u << 20;  // of one push
inline constexpr std::uint32_t managed_attribute_bytes_max = 4096;

// Credits.
inline constexpr std::uint64_t credit_operations = 64;
inline constexpr std::uint64_t credit_stream_bytes = 4u << 20;
inline constexpr std::uint64_t credit_session_bytes = 1u << 20;
inline constexpr microseconds credit_sleep_min{20};
inline constexpr microseconds credit_sleep_max{1'000};

inline constexpr std::uint64_t image_bytes_max = std::uint64_t{2} << 30;
inline constexpr std::uint32_t log_buffer_bytes_max = 1u << 20;  // of a JIT log
inline constexpr std::size_t image_parts_max = 4096;
inline constexpr std::size_t jit_options_max = 64;
inline constexpr std::size_t printf_push_bytes_max = 1u << 20;

}  // namespace gpuwire::daemon::limits
