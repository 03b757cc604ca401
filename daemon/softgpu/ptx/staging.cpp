// SPDX-License-Identifier: Apache-2.0
#include "staging.hpp"

#include <algorithm>

namespace gpuwire::softgpu::ptx {
namespace {

// o = sources (count). immediate: the first slot.
template <class T>
void copy_in(executor& x, const instruction& i, std::uint32_t lanes) {
  auto& slots = x.warp_->staged;
  if (slots.empty()) slots.resize(std::size_t{staging_slots} * warp_lanes);
  for (std::uint32_t n = 0; n < i.count; ++n) {
    std::uint64_t* to = &slots[(static_cast<std::size_t>(i.immediate) + n) * warp_lanes];
    const std::byte* from = x.in(i.o[n]);
    for_lanes(lanes, [=](std::uint32_t l) { to[l] = get<T>(from, l); });
  }
}

// o = destinations (count).
template <class T>
void copy_out(executor& x, const instruction& i, std::uint32_t lanes) {
  const auto& slots = x.warp_->staged;
  for (std::uint32_t n = 0; n < i.count; ++n) {
    const std::uint64_t* from = &slots[(static_cast<std::size_t>(i.immediate) + n) * warp_lanes];
    std::byte* to = x.out(i.o[n]);
    for_lanes(lanes, [=](std::uint32_t l) { put(to, l, static_cast<T>(from[l])); });
  }
}

}  // namespace

void stage(builder& b, std::span<const std::uint32_t> sources, type t, std::uint32_t first) {
  const handler run = lane_bytes(t) == 8 ? copy_in<std::uint64_t> : copy_in<std::uint32_t>;
  for (std::size_t done = 0; done < sources.size(); done += operand_count_max) {
    const auto part =
        sources.subspan(done, std::min<std::size_t>(operand_count_max, sources.size() - done));
    instruction& i = b.emit(run, {}, part);
    i.count = static_cast<std::uint8_t>(part.size());
    i.immediate = static_cast<std::int64_t>(first + done);
  }
}

void unstage(builder& b, std::span<const std::uint32_t> destinations, type t, std::uint32_t first) {
  const handler run = lane_bytes(t) == 8 ? copy_out<std::uint64_t> : copy_out<std::uint32_t>;
  for (std::size_t done = 0; done < destinations.size(); done += operand_count_max) {
    const auto part = destinations.subspan(
        done, std::min<std::size_t>(operand_count_max, destinations.size() - done));
    instruction& i = b.emit(run, part, {});
    i.count = static_cast<std::uint8_t>(part.size());
    i.immediate = static_cast<std::int64_t>(first + done);
  }
}

}  // namespace gpuwire::softgpu::ptx
