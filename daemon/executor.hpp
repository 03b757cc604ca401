// SPDX-License-Identifier: Apache-2.0
// The thread that carries out commands strictly in the order of the stream and never blocks: what
// may take long goes to the lane's own thread, frees to the reaper, waits to whoever may wait. Owns
// the receiving end of the command connection.
#pragma once

#include "daemon/limits.hpp"
#include "daemon/pending_wait.hpp"
#include "daemon/waiters.hpp"
#include "daemon/worker.hpp"
#include "wire/server.hpp"

namespace gpuwire::daemon {

class executor {
 public:
  explicit executor(worker& w) : worker_(w), wait_(limits::executor_spin) {}

  // Until the session is over; does not return.
  [[noreturn]] void run();
  // The wait of the command in hand.
  void hold(pending_wait wait);

 private:
  void take(const wire::received_frame& frame);
  bool belongs_on_lane(const wire::received_frame& frame, bool slow) const;
  void run_on_lane(const wire::received_frame& frame);
  void poll();
  void hand_over(std::optional<pending_wait> wait);

  worker& worker_;
  newest_wait<pending_wait> wait_;
};

}  // namespace gpuwire::daemon
