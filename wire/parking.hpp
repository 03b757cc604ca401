// SPDX-License-Identifier: Apache-2.0
// Waiting on one 32-bit word of this process. Wakes may come without a reason: callers look at the word again.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace gpuwire::wire {

// Returns when the word is not `expected`, after a wake, or for no reason.
inline void park(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
inline void unpark_one(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}
inline void unpark_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How long a thread may spin before it blocks.
class spin_limit {
 public:
  explicit spin_limit(std::chrono::microseconds length)
      : until_(std::chrono::steady_clock::now() + length) {}
  bool over() const { return std::chrono::steady_clock::now() >= until_; }

 private:
  std::chrono::steady_clock::time_point until_;
};

// How long to spin before the next wait. Where cores are few, the peer that is waited for may need this very core: after
// spinning in vain three times the next waits block at once, then it is tried again. Used by one thread at a time.
class spin_budget {
 public:
  explicit spin_budget(int cores, std::chrono::microseconds usual = std::chrono::microseconds(50))
      : few_cores_(cores <= 2), usual_(usual) {}

  std::chrono::microseconds next() {
    if (blocking_ == 0) return usual_;
    --blocking_;
    return std::chrono::microseconds(0);
  }
  // After a wait for which next() gave more than nothing.
  void spun(bool in_vain) {
    if (!few_cores_) return;
    failures_ = in_vain ? failures_ + 1 : 0;
    if (failures_ < 3) return;
    failures_ = 0;
    blocking_ = 32;
  }

 private:
  bool few_cores_;
  std::chrono::microseconds usual_;
  int failures_ = 0, blocking_ = 0;
};

}  // namespace gpuwire::wire
