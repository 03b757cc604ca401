// SPDX-License-Identifier: Apache-2.0
// Whether a session still stands and, if not, why. Written once; read by every thread without a lock.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "wire/error.hpp"

namespace gpuwire::wire {

// Sequentially consistent, because sleeping threads look at it after they said that they sleep.
class session_state {
 public:
  error code() const { return code_.load(std::memory_order_seq_cst); }
  bool ok() const { return code() == error::ok; }
  // Empty while the session stands.
  const std::string& text() const {
    static const std::string none;
    return ok() ? none : text_;
  }
  // True for the one caller whose reason stands.
  bool end(error code, std::string text) {
    std::lock_guard lock(mutex_);
    if (!ok()) return false;
    text_ = std::move(text);
    code_.store(code, std::memory_order_seq_cst);
    return true;
  }
  // In the child of a fork no lock may be taken: its holder may not exist there.
  void end_after_fork(error code) { code_.store(code, std::memory_order_seq_cst); }

 private:
  std::mutex mutex_;
  std::string text_;
  std::atomic<error> code_{error::ok};
};

}  // namespace gpuwire::wire
