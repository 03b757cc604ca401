// SPDX-License-Identifier: Apache-2.0
// Host memory that kernels reach directly: pinned and registered ranges that were flagged, and
// managed memory. The server has memory at the same addresses (daemon/direct_memory.hpp). What the
// program wrote travels ahead of each piece of device work; what the device wrote arrives with each
// answer that says work is complete. Each side sends only bytes that it changed itself.
//
// A range is flagged when it was allocated for mapping, when its device pointer was asked for, or
// when an address of it is seen on its way to a kernel. Until then the server has nothing there and
// a kernel faults (700): never stale data.
//
// Any thread. Processes without host memory of CUDA's pay one relaxed load per launch.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuwire::shim {

namespace detail {
extern std::atomic<unsigned> host_ranges;  // that a kernel could be given: flagged or not
void look_for_host_addresses(const std::byte* data, std::size_t bytes);
CUresult send_host_writes();
}  // namespace detail

// Before commands that read or write device memory are appended: what the program wrote goes first.
inline CUresult before_device_work() {
  if (detail::host_ranges.load(std::memory_order_relaxed) == 0) [[likely]]
    return CUDA_SUCCESS;
  return detail::send_host_writes();
}

// What a kernel will see and could hold addresses: arguments, small copies. Flags the host memory
// that they name.
inline void note_host_addresses(const void* data, std::size_t bytes) {
  if (detail::host_ranges.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  detail::look_for_host_addresses(static_cast<const std::byte*>(data), bytes);
}

// Data beyond this is not searched for addresses.
inline constexpr std::size_t searched_bytes_max = 64u << 10;

// Flags the pinned or registered range that the address lies in. Success if it was flagged before;
// NOT_SUPPORTED if the server has no room at its address.
CUresult make_direct(std::uint64_t address);
// Managed memory, which is direct from the start.
CUresult begin_direct(std::uint64_t address, std::uint64_t bytes);

// A range came that a kernel could be given, or went. Whoever frees it tells the server.
void host_range_came(std::uint64_t address, std::uint64_t bytes);
void host_range_went();
void end_direct(std::uint64_t address);

// Returns when the server has what the program wrote up to now: before a notice that overtakes
// commands.
void settle_host_writes();

// GPUWIRE_PINNED=mapped: every range is flagged when it is made.
bool flag_everything();

// From the side thread.
void take_device_writes(std::uint64_t address, std::span<const std::byte> delta);

// Says once, after a kernel has used an address that is none, that host memory is here which it
// cannot reach.
void explain_illegal_address(CUresult result);

}  // namespace gpuwire::shim
