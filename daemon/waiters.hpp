// SPDX-License-Identifier: Apache-2.0
// Decides who waits for a wait: the executor itself while nothing else happens, a thread that may
// block as soon as another command arrives or the polling time is over. Pure; the executor owns it.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

namespace gpuwire::daemon {

template <class Wait, class Clock = std::chrono::steady_clock>
class newest_wait {
 public:
  using time_point = typename Clock::time_point;

  explicit newest_wait(typename Clock::duration poll_for) : poll_for_(poll_for) {}

  // A new wait; only the newest is polled, so the one before goes to a thread.
  std::optional<Wait> offer(Wait w, time_point now) {
    auto displaced = take();
    held_ = std::move(w);
    until_ = now + poll_for_;
    return displaced;
  }
  // A further command has arrived.
  std::optional<Wait> on_command() { return take(); }
  // Nothing to do at this moment: is the time over?
  std::optional<Wait> on_idle(time_point now) {
    return held_ && now >= until_ ? take() : std::nullopt;
  }

  const Wait* polled() const { return held_ ? &*held_ : nullptr; }
  // The polled wait is complete.
  std::optional<Wait> take() { return std::exchange(held_, std::nullopt); }

 private:
  typename Clock::duration poll_for_;
  std::optional<Wait> held_;
  time_point until_{};
};

}  // namespace gpuwire::daemon
