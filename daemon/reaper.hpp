// SPDX-License-Identifier: Apache-2.0
// The thread for posted frees and destroys, which may wait for the GPU and must not make the
// executor wait. In order; calls that could see the difference (allocations, memory information)
// wait for what was posted before them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace gpuwire::daemon {

struct worker;
struct call_ticket;

class reaper {
 public:
  explicit reaper(worker& w) : worker_(w) {}

  // Executor. `work` runs with the ticket's context current; its error is reported as the posted
  // command's.
  void post(const call_ticket& ticket, std::function<int()> work);
  bool idle() const;
  std::uint64_t posted() const;
  // Never on the executor.
  void wait_for(std::uint64_t count);

 private:
  void run();

  worker& worker_;
  mutable std::mutex mutex_;
  std::condition_variable changed_, done_;
  std::deque<std::function<void()>> work_;
  std::uint64_t posted_ = 0, finished_ = 0;
  bool started_ = false;
};

}  // namespace gpuwire::daemon
