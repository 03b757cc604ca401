// SPDX-License-Identifier: Apache-2.0
#include "daemon/event_pool.hpp"

#include "daemon/worker.hpp"

namespace gpuwire::daemon {

CUevent event_pool::acquire(std::uint32_t context, CUresult& problem) {
  problem = CUDA_SUCCESS;
  {
    std::lock_guard lock(mutex_);
    auto& free = free_[context];
    if (!free.empty()) {
      const auto event = free.back();
      free.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  capture_mode_scope relaxed(worker_.driver(), CU_STREAM_CAPTURE_MODE_RELAXED);
  problem =
      worker_.driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
  return problem == CUDA_SUCCESS ? event : nullptr;
}

void event_pool::release(CUevent event, std::uint32_t context) {
  if (event == nullptr) return;
  std::lock_guard lock(mutex_);
  free_[context].push_back(event);
}

void event_pool::context_gone(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  free_.erase(context);
}

}  // namespace gpuwire::daemon
