// SPDX-License-Identifier: Apache-2.0
#include "wire/outgoing.hpp"

#include "wire/limits.hpp"

namespace gpuwire::wire {

// A queue that has once been large gives its memory back.
static constexpr std::size_t kept_capacity_bytes = 1u << 20;

void outgoing::attach(net::socket& connection) {
  std::unique_lock lock(mutex_);
  connection_ = &connection;
  if (queue_.size() > begin_) static_cast<void>(dispatch(lock, 0));
}

error outgoing::dispatch(std::unique_lock<std::mutex>& lock, std::size_t bytes) {
  const auto waiting = queue_.size() - begin_;
  if (waiting > limits::outgoing_queue_bytes_max) {
    lock.unlock();
    fail_(error::limit_exceeded, "the peer has not read what it was told for too long");
    return state_.code();
  }
  if (!connection_ || flushing_) return error::ok;
  if (bytes == waiting) {  // nothing before it: the usual case
    const auto result = connection_->send_now({queue_.data() + begin_, waiting});
    if (result.status == net::io::done) {
      begin_ += result.bytes;
    } else if (result.status != net::io::would_wait) {
      lock.unlock();
      fail_(error::connection_lost, net::error_text(result));
      return state_.code();
    }
    if (begin_ == queue_.size()) {
      queue_.clear();
      begin_ = 0;
      if (queue_.capacity() > kept_capacity_bytes) queue_ = {};
      return error::ok;
    }
  }
  flushing_ = threads_.start("gpuwire-flush", [this] { flush_rest(); });
  if (flushing_) return error::ok;
  lock.unlock();
  fail_(error::system_failure, "the system allows no more threads");
  return state_.code();
}

void outgoing::flush_rest() {
  net::io_result result;
  {
    std::unique_lock lock(mutex_);
    while (state_.ok() && begin_ < queue_.size()) {
      result = connection_->send_now({queue_.data() + begin_, queue_.size() - begin_});
      if (result.status == net::io::done) {
        begin_ += result.bytes;
        if (begin_ > queue_.size() / 2) {
          queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(begin_));
          begin_ = 0;
        }
      } else if (result.status == net::io::would_wait) {
        lock.unlock();
        connection_->wait_writable(net::no_limit);
        lock.lock();
      } else {
        break;
      }
    }
    flushing_ = false;
    if (begin_ == queue_.size()) {
      queue_ = {};
      begin_ = 0;
    }
  }
  if (result.status == net::io::failed) fail_(error::connection_lost, net::error_text(result));
}

}  // namespace gpuwire::wire
