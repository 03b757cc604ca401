// SPDX-License-Identifier: Apache-2.0
// The sending side of one connection: of each of the server's, of the client's side connection. A frame goes straight into the socket; what the
// socket does not take at once is kept here and sent by a thread that lives as long as there is
// something to send. So neither the executor nor anybody else ever waits for a slow reader. Beyond
// a limit the session ends. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "wire/net/socket.hpp"
#include "wire/session_state.hpp"
#include "wire/thread.hpp"

namespace gpuwire::wire {

class outgoing {
 public:
  using fail_function = std::function<void(error, const std::string&)>;

  // `fail` is called without a lock.
  outgoing(session_state& state, thread_group& threads, fail_function fail)
      : state_(state), threads_(threads), fail_(std::move(fail)) {}

  void attach(net::socket& connection);  // frames sent before wait for it

  // Sends one frame of `bytes`, written by build(sequence, memory); false from it sends nothing. A
  // numbered frame takes the next sequence.
  template <class Build>
  error send(std::size_t bytes, bool numbered, Build&& build);

  std::uint64_t last_sequence() const { return sequence_.load(std::memory_order_seq_cst); }

 private:
  error dispatch(std::unique_lock<std::mutex>& lock, std::size_t bytes);
  void flush_rest();  // body of the flushing thread

  session_state& state_;
  thread_group& threads_;
  const fail_function fail_;
  std::mutex mutex_;
  net::socket* connection_ = nullptr;
  std::vector<std::byte> queue_;  // from begin_ on: not yet taken by the socket
  std::size_t begin_ = 0;
  bool flushing_ = false;
  std::atomic<std::uint64_t> sequence_{0};  // written under mutex_
};

template <class Build>
error outgoing::send(std::size_t bytes, bool numbered, Build&& build) {
  if (!state_.ok()) return state_.code();
  std::unique_lock lock(mutex_);
  const auto sequence = sequence_.load(std::memory_order_relaxed) + (numbered ? 1 : 0);
  const auto place = queue_.size();
  queue_.resize(place + bytes);
  if (!build(sequence, queue_.data() + place)) {
    queue_.resize(place);
    return error::limit_exceeded;
  }
  sequence_.store(sequence, std::memory_order_seq_cst);
  return dispatch(lock, bytes);
}

}  // namespace gpuwire::wire
