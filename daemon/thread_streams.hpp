// SPDX-License-Identifier: Apache-2.0
// The per-thread default stream. The driver ties it to an operating system thread, of which the
// executor is only one; so every client thread gets a real blocking stream for each context it
// uses. Executor and lane threads.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace gpuwire::daemon {

struct worker;
struct call_ticket;

class thread_streams {
 public:
  explicit thread_streams(worker& w) : worker_(w) {}

  // The calling thread has the context current.
  CUstream get(std::uint32_t lane, std::uint32_t context, CUresult& problem);
  // The lane has ended; the streams are destroyed by the reaper.
  void lane_gone(const call_ticket& ticket);
  void context_gone(std::uint32_t context);

 private:
  worker& worker_;
  std::mutex mutex_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, CUstream> streams_;
};

}  // namespace gpuwire::daemon
