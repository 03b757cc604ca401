// SPDX-License-Identifier: Apache-2.0
// One daemon thread for each client thread that needs one: it runs the slow calls and the waits of
// that client thread, of which there is never more than one at a time, since a client thread waits
// for its answer. Made on demand, ends with the client's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace gpuwire::daemon {

struct worker;

class lane_set {
 public:
  explicit lane_set(worker& w) : worker_(w) {}

  // Executor. Ends the session when there are too many lanes.
  void run(std::uint32_t lane, std::function<void()> work);
  // After its last work the lane's thread ends.
  void end(std::uint32_t lane);

 private:
  struct lane_thread;
  worker& worker_;
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::shared_ptr<lane_thread>> lanes_;
};

}  // namespace gpuwire::daemon
