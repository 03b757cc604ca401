// SPDX-License-Identifier: Apache-2.0
// How often memory that both sides poll is looked at: often after device work was begun, then ever
// more rarely. Nobody can tell when a kernel that polls has ended, so it never stops. Thread-safe,
// no I/O.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpuwire::wire {

// Ranges up to this size are looked at without being asked.
inline constexpr std::size_t polled_bytes_max = 64u << 10;

class exchange_pace {
 public:
  using clock = std::chrono::steady_clock;

  // True the first time: then the thread that polls has to be started.
  bool work_began() {
    last_work_.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    return !busy_.load(std::memory_order_relaxed) && !busy_.exchange(true);
  }

  std::chrono::microseconds pause() const {
    using namespace std::chrono_literals;
    const clock::duration since = clock::now().time_since_epoch() -
                                  clock::duration(last_work_.load(std::memory_order_relaxed));
    if (since < 1s) return 100us;
    if (since < 10s) return 1ms;
    return since < 100s ? 10ms : 100ms;
  }

 private:
  std::atomic<clock::rep> last_work_{0};
  std::atomic<bool> busy_{false};
};

}  // namespace gpuwire::wire
