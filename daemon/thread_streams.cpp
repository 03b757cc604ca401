// SPDX-License-Identifier: Apache-2.0
#include "daemon/thread_streams.hpp"

#include "daemon/worker.hpp"

namespace gpuwire::daemon {

CUstream thread_streams::get(std::uint32_t lane, std::uint32_t context, CUresult& problem) {
  problem = CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  auto& stream = streams_[{lane, context}];
  if (stream == nullptr) {
    capture_mode_scope relaxed(worker_.driver(), CU_STREAM_CAPTURE_MODE_RELAXED);
    problem = worker_.driver().cuStreamCreate(&stream, CU_STREAM_DEFAULT);
    if (problem != CUDA_SUCCESS) stream = nullptr;
  }
  return stream;
}

void thread_streams::lane_gone(const call_ticket& ticket) {
  std::lock_guard lock(mutex_);
  auto at = streams_.lower_bound({ticket.lane, 0});
  while (at != streams_.end() && at->first.first == ticket.lane) {
    if (at->second != nullptr) {
      auto of_context = ticket;
      of_context.context = at->first.second;
      worker_.frees.post(of_context, [&w = worker_, stream = at->second] {
        w.driver().cuStreamDestroy_v2(stream);
        return 0;  // nobody is left to be told
      });
    }
    at = streams_.erase(at);
  }
}

void thread_streams::context_gone(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  std::erase_if(streams_, [&](const auto& entry) { return entry.first.second == context; });
}

}  // namespace gpuwire::daemon
