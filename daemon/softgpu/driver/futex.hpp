// SPDX-License-Identifier: Apache-2.0
// A word that threads can sleep on. The waker takes no lock, so a thread of idle priority can wake
// others without ever making one of them wait for it.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace gpuwire::softgpu {

class wake_word {
 public:
  std::uint32_t value() const { return word_.load(); }

  // Returns when the word no longer is `seen`, on a spurious wake-up, or after the time (0: no
  // limit).
  void wait(std::uint32_t seen, std::uint64_t timeout_ns = 0) {
    timespec timeout{static_cast<time_t>(timeout_ns / 1000000000),
                     static_cast<long>(timeout_ns % 1000000000)};
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), FUTEX_WAIT_PRIVATE, seen,
            timeout_ns == 0 ? nullptr : &timeout, nullptr, 0);
  }

  // First change(), then notify(): a thread that is about to sleep on the old value does not.
  void change() { word_.fetch_add(1); }
  void notify(int threads = INT_MAX) {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), FUTEX_WAKE_PRIVATE, threads,
            nullptr, nullptr, 0);
  }

 private:
  std::atomic<std::uint32_t> word_{0};
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
};

}  // namespace gpuwire::softgpu
