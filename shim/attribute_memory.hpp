// SPDX-License-Identifier: Apache-2.0
// What a kernel's attributes were last set to, so that setting one again to what it is costs no
// round trip: libraries do so before each launch. Lock-free; shared by all threads.
//
// A kernel can also be changed by the function made from it, and loses all settings with its
// context. Whoever does such a thing raises the epoch, which makes every memory void.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpuwire::shim {

class attribute_memory {
 public:
  bool is_already(unsigned attribute, int device, std::int32_t value) const {
    return attribute < set_.size() && remembers(device) &&
           set_[attribute].load(std::memory_order_relaxed) == packed(device, value);
  }
  void remember(unsigned attribute, int device, std::int32_t value) {
    if (attribute < set_.size() && remembers(device))
      set_[attribute].store(packed(device, value), std::memory_order_relaxed);
  }
  void forget() {
    for (auto& place : set_) place.store(0, std::memory_order_relaxed);
  }

  static void forget_everywhere() { epoch_.fetch_add(1, std::memory_order_relaxed); }

 private:
  static bool remembers(int device) { return device >= 0 && device < 256; }
  // value, device, and enough of the epoch that an old one does not come again
  static std::uint64_t packed(int device, std::int32_t value) {
    const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed) & 0xffffff;
    return epoch << 40 | static_cast<std::uint64_t>(device) << 32 |
           static_cast<std::uint32_t>(value);
  }

  static inline std::atomic<std::uint64_t> epoch_{1};
  std::array<std::atomic<std::uint64_t>, 16> set_{};
};

}  // namespace gpuwire::shim
