// SPDX-License-Identifier: Apache-2.0
// Who sends a record, and when: decisions without threads and clocks.
//
// A lone record goes out at once, by the thread that appended it. As soon as a second one follows within the linger time
// the writer thread takes over, callers only append, and a launch costs no system call. The writer gives a record a few
// microseconds of company, so that one send takes several and a call that follows at once finds the socket free. It
// watches the ring until it has been empty for the linger time, then parks. A called command is always sent by its caller,
// who waits anyway, together with all that lies before it.
#pragma once

#include <chrono>
#include <cstddef>

namespace gpuwire::wire {

class flush_policy {
 public:
  using time = std::chrono::steady_clock::time_point;
  enum class append_action { nothing, send, wake_writer };
  enum class writer_action {
    look_again,  // at once: cores are plenty and a delay would keep the GPU waiting
    nap,         // for nap_us(): a spinning writer would take the core that the others need
    park,        // until woken
  };

  explicit flush_policy(int cores, std::chrono::microseconds linger = std::chrono::microseconds(50))
      : few_cores_(cores <= 2), linger_(linger) {}

  bool few_cores() const { return few_cores_; }
  std::chrono::microseconds nap_us() const { return linger_; }

  append_action appended(bool called, bool writer_awake, time now, time last_sent) const {
    if (called) return append_action::send;
    if (writer_awake) return append_action::nothing;
    return now - last_sent < linger_ ? append_action::wake_writer : append_action::send;
  }

  // Whether the writer sends what it has found waiting, the oldest record for about `waited`.
  bool ripe(std::chrono::nanoseconds waited, std::size_t bytes) const {
    return few_cores_ || waited >= gather_ || bytes >= gather_bytes_;  // few cores: it has napped
  }

  // After the writer found the ring empty. `since`: when it last sent something.
  writer_action found_empty(time now, time since) const {
    if (now - since >= linger_) return writer_action::park;
    return few_cores_ ? writer_action::nap : writer_action::look_again;
  }

 private:
  bool few_cores_;
  std::chrono::microseconds linger_;
  std::chrono::microseconds gather_{3};
  std::size_t gather_bytes_ = 16u << 10;
};

}  // namespace gpuwire::wire
