// SPDX-License-Identifier: Apache-2.0
// How much a stream may have outstanding. The daemon's executor must never meet a full driver
// queue, so the thread that goes beyond the limits waits here, as it natively would inside the
// driver. Counters only grow; the difference between issued and completed is what is outstanding.
//
// issue() may be called by any thread, complete() by the thread that reads pushes. No lock is held
// across a wait for anything but the completion itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace gpuwire::shim {

inline constexpr std::uint64_t operations_outstanding_max = 512;  // a stream
inline constexpr std::uint64_t copy_bytes_outstanding_max = 32u
                                                            << 20;  // a stream, posted copies only

struct stream_credit {
  std::atomic<std::uint64_t> operations_issued{0}, operations_completed{0};
  std::atomic<std::uint64_t> bytes_issued{0}, bytes_completed{0};
  std::atomic<std::uint64_t> idle_at{0};  // see known_idle() in entry.hpp
  std::atomic<bool> capturing{false};     // a capture began in this stream; see captures.hpp

  // A single copy above the limit may go when nothing else is outstanding.
  bool has_room(std::uint64_t bytes) const {
    if (outstanding(operations_issued, operations_completed) >= operations_outstanding_max)
      return false;
    if (bytes == 0) return true;
    const auto copies = outstanding(bytes_issued, bytes_completed);
    return copies == 0 || copies + bytes <= copy_bytes_outstanding_max;
  }

  // For a record that begins a new life; nobody else knows it yet.
  void restart() {
    for (auto* counter :
         {&operations_issued, &operations_completed, &bytes_issued, &bytes_completed})
      counter->store(0, std::memory_order_relaxed);
  }

 private:
  // A completion may be told before its issuer has counted it.
  static std::uint64_t outstanding(const std::atomic<std::uint64_t>& issued,
                                   const std::atomic<std::uint64_t>& completed) {
    const auto done = completed.load(std::memory_order_acquire);
    const auto begun = issued.load(std::memory_order_relaxed);
    return begun > done ? begun - done : 0;
  }
};

class credit_desk {
 public:
  // Waits until the stream has room, then counts one operation. `before_waiting` sends what was
  // appended, without which the room might never come. False: the connection is gone.
  template <class BeforeWaiting>
  bool issue(stream_credit& stream, std::uint64_t bytes, BeforeWaiting before_waiting) {
    if (!stream.has_room(bytes)) {
      before_waiting();
      std::unique_lock lock(mutex_);
      ++waiting_;
      room_.wait(lock, [&] { return closed_ || stream.has_room(bytes); });
      --waiting_;
      if (closed_) return false;
    }
    stream.operations_issued.fetch_add(1, std::memory_order_relaxed);
    if (bytes != 0) stream.bytes_issued.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }

  // Totals as the daemon counts them; an older total than the known one changes nothing.
  void complete(stream_credit& stream, std::uint64_t operations_total, std::uint64_t bytes_total) {
    std::lock_guard lock(mutex_);
    raise(stream.operations_completed, operations_total);
    raise(stream.bytes_completed, bytes_total);
    if (waiting_ != 0) room_.notify_all();
  }

  // The connection is lost: nobody waits any more.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    room_.notify_all();
  }

 private:
  static void raise(std::atomic<std::uint64_t>& counter, std::uint64_t total) {
    if (counter.load(std::memory_order_relaxed) < total)
      counter.store(total, std::memory_order_release);
  }

  std::mutex mutex_;
  std::condition_variable room_;
  unsigned waiting_ = 0;
  bool closed_ = false;
};

}  // namespace gpuwire::shim
