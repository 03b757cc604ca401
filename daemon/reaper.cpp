// SPDX-License-Identifier: Apache-2.0
#include "daemon/reaper.hpp"

#include "daemon/contexts.hpp"
#include "daemon/daemon_thread.hpp"
#include "daemon/worker.hpp"

namespace gpuwire::daemon {

void reaper::post(const call_ticket& ticket, std::function<int()> work) {
  std::lock_guard lock(mutex_);
  if (!started_) {
    started_ = true;
    start_thread(worker_, "gpuwire-reaper", [this] { run(); });
  }
  work_.push_back([this, ticket, work = std::move(work)] {
    enter_context(worker_, ticket.context);
    const auto result = static_cast<CUresult>(work());
    if (result != CUDA_SUCCESS) worker_.report(ticket, result);
  });
  ++posted_;
  changed_.notify_one();
}

bool reaper::idle() const {
  std::lock_guard lock(mutex_);
  return posted_ == finished_;
}

std::uint64_t reaper::posted() const {
  std::lock_guard lock(mutex_);
  return posted_;
}

void reaper::wait_for(std::uint64_t count) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return finished_ >= count; });
}

void reaper::run() {
  for (;;) {
    std::function<void()> next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !work_.empty(); });
      next = std::move(work_.front());
      work_.pop_front();
    }
    next();
    std::lock_guard lock(mutex_);
    ++finished_;
    done_.notify_all();
  }
}

}  // namespace gpuwire::daemon
