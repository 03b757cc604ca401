// SPDX-License-Identifier: Apache-2.0
// Virtual handles: what a client holds instead of the driver's pointers. Neither end ever dereferences one; each looks it
// up in a table and compares kind and generation, so that a stale or invented number is noticed.
#pragma once

#include <cstdint>

namespace gpuwire::wire {

// server 8 bits (56..63), kind 8 bits (48..55), generation 16 bits (32..47), index 32 bits.
using handle_id = std::uint64_t;

// kind is at least 1, which keeps every handle apart from the special values.
constexpr handle_id make_handle(std::uint8_t server, std::uint8_t kind, std::uint16_t generation,
                                std::uint32_t index) {
  return handle_id{server} << 56 | handle_id{kind} << 48 | handle_id{generation} << 32 | index;
}
constexpr std::uint8_t handle_server(handle_id h) { return static_cast<std::uint8_t>(h >> 56); }
constexpr std::uint8_t handle_kind_of(handle_id h) { return static_cast<std::uint8_t>(h >> 48); }
constexpr std::uint16_t handle_generation(handle_id h) {
  return static_cast<std::uint16_t>(h >> 32);
}
constexpr std::uint32_t handle_index(handle_id h) { return static_cast<std::uint32_t>(h); }

// Values that CUDA gives a meaning of its own (null, the legacy and the per-thread default stream, context -1): they pass
// unchanged.
constexpr bool is_special_handle(handle_id h) { return h <= 2 || h == ~handle_id{0}; }

}  // namespace gpuwire::wire
