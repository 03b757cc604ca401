// SPDX-License-Identifier: Apache-2.0
// The driver's structs of device resources that a client holds by number. They hold data of the
// driver's own, which a client must never be able to make up. Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

namespace gpuwire::daemon {

class device_resources {
 public:
  static constexpr std::size_t resources_max = 65536;

  // The number of the resource; one that is known keeps its number. 0: there are too many.
  std::uint64_t add(const CUdevResource& resource) {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (std::memcmp(&list_[i], &resource, sizeof resource) == 0) return i + 1;
    if (list_.size() >= resources_max) return 0;
    list_.push_back(resource);
    return list_.size();
  }
  std::optional<CUdevResource> find(std::uint64_t number) const {
    std::lock_guard lock(mutex_);
    if (number == 0 || number > list_.size()) return std::nullopt;
    return list_[number - 1];
  }

 private:
  mutable std::mutex mutex_;
  std::vector<CUdevResource> list_;
};

}  // namespace gpuwire::daemon
