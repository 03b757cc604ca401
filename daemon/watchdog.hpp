// SPDX-License-Identifier: Apache-2.0
// The thread of a worker that never calls the driver: it takes connections from the main process
// and ends the worker when its session is over, also while the executor sits in a driver call that
// will not return.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/descriptor.hpp"
#include "wire/server.hpp"

namespace gpuwire::daemon {

// When is a session over whose connections come and go? Pure.
class end_of_session {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  void opened() {
    ++open_;
    deadline_.reset();
  }
  void ended(time_point now);
  // Nothing: the session goes on.
  std::optional<time_point> deadline() const { return deadline_; }

 private:
  std::size_t open_ = 0;
  std::optional<time_point> deadline_;
};

class watchdog {
 public:
  // `attach` is called for every further connection; `end` with the reason, and does not return in
  // a worker; `tickets` with the channel for them.
  watchdog(descriptor control, std::function<void(wire::connection_role, int fd)> attach,
           std::function<void(const std::string& reason)> end,
           std::function<void(descriptor)> tickets);
  // Watches a connection besides whoever reads it; keeps a copy of the descriptor.
  void watch(int fd);
  void run();

 private:
  bool take_messages();
  void look_at_connections(const std::vector<short>& events);

  descriptor control_;
  std::function<void(wire::connection_role, int)> attach_;
  std::function<void(const std::string&)> end_;
  std::function<void(descriptor)> tickets_;
  std::vector<descriptor> connections_;
  end_of_session over_;
};

}  // namespace gpuwire::daemon
