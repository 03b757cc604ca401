// SPDX-License-Identifier: Apache-2.0
// Which launch configurations of one function the driver has already accepted. The first launch of
// a configuration waits for the driver's verdict, later ones need not. Lock-free; shared by all
// threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuwire::shim {

struct launch_configuration {
  std::uint32_t block_x = 0, block_y = 0, block_z = 0;
  std::uint32_t shared_bytes = 0;
  std::uint32_t context = 0;
  std::uint32_t parameter_bytes = 0;
  // With attributes (clusters, cooperative) the verdict depends on the grid as well; without them
  // it stays zero here.
  std::uint32_t grid_x = 0, grid_y = 0, grid_z = 0;
  std::span<const std::byte> attributes;
};

inline std::uint64_t configuration_key(const launch_configuration& c) {
  std::uint64_t h = 0x9E3779B97F4A7C15ull;
  const auto mix = [&h](std::uint64_t v) {
    h ^= v + 0x9E3779B97F4A7C15ull + (h << 6) + (h >> 2);
    h *= 0xD6E8FEB86659FD93ull;
    h ^= h >> 32;
  };
  mix(std::uint64_t{c.block_x} << 32 | c.block_y);
  mix(std::uint64_t{c.block_z} << 32 | c.shared_bytes);
  mix(std::uint64_t{c.context} << 32 | c.parameter_bytes);
  if (!c.attributes.empty()) {
    mix(std::uint64_t{c.grid_x} << 32 | c.grid_y);
    mix(c.grid_z);
    for (const auto b : c.attributes) mix(std::to_integer<std::uint64_t>(b));
  }
  return h | 1;  // zero marks an empty place
}

class launch_cache {
 public:
  static constexpr std::size_t places = 16;

  bool knows(std::uint64_t key) const {
    for (const auto& place : accepted_)
      if (place.load(std::memory_order_relaxed) == key) return true;
    return false;
  }
  void accept(std::uint64_t key) {
    if (knows(key)) return;
    accepted_[next_.fetch_add(1, std::memory_order_relaxed) % places].store(
        key, std::memory_order_relaxed);
  }
  // After an attribute of the function changed every verdict is open again.
  void forget() {
    for (auto& place : accepted_) place.store(0, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, places> accepted_{};
  std::atomic<std::uint32_t> next_{0};
};

}  // namespace gpuwire::shim
