// SPDX-License-Identifier: Apache-2.0
// For instructions with more operands than one holds: the values of a lane are laid out in slots of
// its warp, the instruction works on the slots, and its results are taken from slots again. Lanes
// do not share slots, so groups of a warp that run in turn do not disturb each other.
#pragma once

#include <span>

#include "builder.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {

inline constexpr std::uint32_t staging_slots = 64;

// Emits what copies the operands, all of type `t`, to the slots from `first` on.
void stage(builder& b, std::span<const std::uint32_t> sources, type t, std::uint32_t first);
// Emits what copies from the slots.
void unstage(builder& b, std::span<const std::uint32_t> destinations, type t, std::uint32_t first);

// The slot of a lane of the running warp. Values of 4 bytes are extended with zeroes.
inline std::uint64_t& staged(executor& x, std::uint32_t slot, std::uint32_t lane) {
  return x.warp_->staged[slot * warp_lanes + lane];
}
inline std::uint32_t staged_word(executor& x, std::uint32_t slot, std::uint32_t lane) {
  return static_cast<std::uint32_t>(staged(x, slot, lane));
}
inline float staged_float(executor& x, std::uint32_t slot, std::uint32_t lane) {
  return std::bit_cast<float>(staged_word(x, slot, lane));
}

}  // namespace gpuwire::softgpu::ptx
