// SPDX-License-Identifier: Apache-2.0
// Every bound that a received length is held against, and every size that both ends have to agree on. Bytes unless the
// name says otherwise. A value that travels only inside one end may change freely; the others are part of the protocol.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpuwire::wire::limits {

// Host memory up to this size is copied into the command and posted; more travels on the bulk connections.
inline constexpr std::uint64_t inline_payload_bytes_max = 1u << 20;
// The body of a command or a push: one inline payload, kernel parameters and names beside it.
inline constexpr std::uint32_t frame_bytes_max = (2u << 20) + (256u << 10);
// Device data up to this size rides inside the reply that covers it.
inline constexpr std::uint64_t reply_inline_bytes_max = 64u << 10;
// The body of a reply. Large, because the reply to a library load names all its kernels.
inline constexpr std::uint32_t reply_bytes_max = 64u << 20;
// The body of a question or an answer on a light connection.
inline constexpr std::uint32_t light_body_bytes_max = 8u << 20;
inline constexpr std::uint32_t bulk_chunk_bytes = 2u << 20;

// Asynchronous copies from pinned memory: from this size on they are sent beside the stream; in how many segments the
// server's stream takes them, which decides how many operations both ends count.
inline constexpr std::uint64_t upload_bytes_min = 64u << 10;
inline constexpr std::uint64_t upload_segments_max = 16;
constexpr std::uint64_t upload_segment_bytes(std::uint64_t bytes) {
  const std::uint64_t chunks = (bytes + bulk_chunk_bytes - 1) / bulk_chunk_bytes;
  return (chunks + upload_segments_max - 1) / upload_segments_max * bulk_chunk_bytes;
}
constexpr std::uint64_t upload_operations(std::uint64_t bytes) {
  const std::uint64_t segment = upload_segment_bytes(bytes);
  return 2 * ((bytes + segment - 1) / segment) + 2;
}

inline constexpr std::uint32_t bulk_connections_max = 4;

// Client: commands appended and not yet taken by the socket.
inline constexpr std::size_t command_ring_bytes = 32u << 20;
// Server: replies and pushes that a slow reader has not taken yet; beyond it the session ends.
inline constexpr std::size_t outgoing_queue_bytes_max = 256u << 20;
inline constexpr std::size_t receive_buffer_bytes = 4u << 20;

// Handshake. A whole hello, environment included, is below handshake_bytes_max.
inline constexpr std::size_t handshake_bytes_max = 64u << 10;
inline constexpr std::size_t environment_variables_max = 64;
inline constexpr std::size_t environment_name_bytes_max = 128;
inline constexpr std::size_t environment_value_bytes_max = 4096;
inline constexpr std::size_t refusal_bytes_max = 1024;
inline constexpr std::size_t token_bytes_max = 4096;

inline constexpr std::chrono::milliseconds refused_retry_ms_max{1'000};  // a daemon that is just starting
inline constexpr std::chrono::microseconds spin_us{50};                  // before a waiting thread blocks

// Keepalive finds a dead peer of a silent connection, the user timeout one that stops acknowledging.
inline constexpr int keepalive_idle_s = 60, keepalive_interval_s = 15, keepalive_probes = 3;
inline constexpr int user_timeout_ms = 105'000;

}  // namespace gpuwire::wire::limits
