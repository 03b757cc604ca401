// SPDX-License-Identifier: Apache-2.0
// Events for the daemon's own use, by context: without timing, and blocking, because a thread that
// waits long must not burn a processor. Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace gpuwire::daemon {

struct worker;

class event_pool {
 public:
  explicit event_pool(worker& w) : worker_(w) {}

  // The calling thread has the context current. Null with `problem` set when the driver refuses.
  CUevent acquire(std::uint32_t context, CUresult& problem);
  void release(CUevent event, std::uint32_t context);
  // The events went with their context.
  void context_gone(std::uint32_t context);

 private:
  worker& worker_;
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::vector<CUevent>> free_;
};

}  // namespace gpuwire::daemon
