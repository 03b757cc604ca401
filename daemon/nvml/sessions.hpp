// SPDX-License-Identifier: Apache-2.0
// Which worker process of the daemon works for which client process, as far as the NVML helper was
// told. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace gpuwire::nvml {

class session_list {
 public:
  void begin(std::uint32_t worker, std::uint64_t client) {
    std::lock_guard lock(mutex_);
    clients_[worker] = client;
  }
  void end(std::uint32_t worker) {
    std::lock_guard lock(mutex_);
    clients_.erase(worker);
  }
  // The key of the client process; 0 for a process that is no worker.
  std::uint64_t client_of(std::uint32_t worker) const {
    std::lock_guard lock(mutex_);
    const auto found = clients_.find(worker);
    return found == clients_.end() ? 0 : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::uint64_t> clients_;
};

}  // namespace gpuwire::nvml
