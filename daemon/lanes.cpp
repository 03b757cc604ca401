// SPDX-License-Identifier: Apache-2.0
#include "daemon/lanes.hpp"

#include <condition_variable>
#include <deque>

#include "daemon/daemon_thread.hpp"
#include "daemon/limits.hpp"
#include "daemon/worker.hpp"

namespace gpuwire::daemon {

struct lane_set::lane_thread {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  bool ended = false;

  void add(std::function<void()> w) {
    std::lock_guard lock(mutex);
    work.push_back(std::move(w));
    changed.notify_one();
  }
  void end() {
    std::lock_guard lock(mutex);
    ended = true;
    changed.notify_one();
  }
  void loop() {
    for (;;) {
      std::function<void()> next;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return ended || !work.empty(); });
        if (work.empty()) return;
        next = std::move(work.front());
        work.pop_front();
      }
      next();
    }
  }
};

void lane_set::run(std::uint32_t lane, std::function<void()> work) {
  std::shared_ptr<lane_thread> thread;
  {
    std::lock_guard lock(mutex_);
    auto& place = lanes_[lane];
    if (!place) {
      if (lanes_.size() > limits::lanes_max)
        worker_.end(1, "the client uses more threads than a session may have");
      place = std::make_shared<lane_thread>();
      start_thread(worker_, "gpuwire-lane", [thread = place] { thread->loop(); });
    }
    thread = place;
  }
  thread->add(std::move(work));
}

void lane_set::end(std::uint32_t lane) {
  std::lock_guard lock(mutex_);
  const auto found = lanes_.find(lane);
  if (found == lanes_.end()) return;
  found->second->end();
  lanes_.erase(found);
}

}  // namespace gpuwire::daemon
