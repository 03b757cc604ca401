// SPDX-License-Identifier: Apache-2.0
// Address ranges of the device, kept free of anything else in this process: otherwise a device
// address could equal a heap address and pointer queries would lie. Ranges are held in granules,
// because the driver cuts several allocations from one.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace gpuwire::shim {

class reservations {
 public:
  static constexpr std::uint64_t granule_bytes = 2u << 20;

  // False, and nothing changed, if some of the range is in use.
  bool take(std::uint64_t base, std::uint64_t bytes);
  // Makes the pages of a range that was taken readable and writable. They stay so while any
  // allocation holds their granule.
  bool open(std::uint64_t base, std::uint64_t bytes);
  void give_back(std::uint64_t base, std::uint64_t bytes);

 private:
  bool map_run(std::uint64_t first, std::uint64_t end);
  void unmap_run(std::uint64_t first, std::uint64_t end);

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, unsigned> holders_;  // granule number -> allocations in it
};

}  // namespace gpuwire::shim
