// SPDX-License-Identifier: Apache-2.0
// The ordered stream of commands of one client: all threads append here, and the order of appending
// is the order of the program. Owns the ring, the sequence numbers and the writer thread.
// Thread-safe.
//
// Two locks. append_mutex_ covers sequence, encoding and the ring's end; send_mutex_ covers the
// socket's sending side and the ring's begin. Neither is taken while the other is held, so a full
// socket never stops an appender that has room.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "wire/client.hpp"
#include "wire/flush_policy.hpp"
#include "wire/header.hpp"
#include "wire/limits.hpp"
#include "wire/magic_ring.hpp"
#include "wire/net/socket.hpp"
#include "wire/parking.hpp"
#include "wire/session_state.hpp"

namespace gpuwire::wire {

class command_stream {
 public:
  using encode_function = void (*)(const void* message, encoder& e);
  using fail_function = std::function<void(error, const std::string&)>;

  struct record {
    frame_kind kind{};
    std::uint8_t flags = 0;
    command about;
    std::size_t body_bytes = 0;
    const void* message = nullptr;
    encode_function encode = nullptr;
  };

  // `fail` ends the session; it is called without a lock.
  command_stream(net::socket& socket, session_state& state, int cores, fail_function fail)
      : socket_(socket), state_(state), policy_(cores), fail_(std::move(fail)) {}

  int open() { return ring_.map(limits::command_ring_bytes); }  // 0 or an errno value

  // Appends and does what the policy says. `registered(sequence)` runs before anybody can send the
  // record; `end` is the position that send_until() takes. A called record is not sent here.
  template <class Registered>
  error append(const record& r, Registered&& registered, std::uint64_t& end);

  error send_until(
      std::uint64_t position);  // returns when all before it has been taken by the socket
  std::uint64_t appended() const { return tail_.load(std::memory_order_seq_cst); }

  void write_until_end();  // body of the writer thread
  void wake_writer();      // also to let it see the end of the session
  // The last words: what was appended and a goodbye, as far as the deadline allows.
  void say_goodbye(std::chrono::steady_clock::time_point deadline);

  void note_reply(std::uint64_t sequence) { ack_.store(sequence, std::memory_order_relaxed); }

  std::uint64_t posted() const { return posted_.load(std::memory_order_relaxed); }
  std::uint64_t called() const { return called_.load(std::memory_order_relaxed); }
  std::uint64_t sends() const { return sends_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_sent() const { return sent_.load(std::memory_order_relaxed); }

 private:
  enum writer : std::uint32_t { parked = 0, awake = 1 };

  error make_room(std::unique_lock<std::mutex>& lock, std::size_t bytes);
  net::io_result send_some(bool wait);  // send_mutex_ held; would_wait is no failure
  error lost(const net::io_result& r);  // no lock held
  bool encode_at_tail(const record& r, std::uint64_t tail);
  flush_policy::append_action decide_posted() const;
  error carry_out(flush_policy::append_action action, std::uint64_t end);
  static std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  net::socket& socket_;
  session_state& state_;
  const flush_policy policy_;
  const fail_function fail_;
  magic_ring ring_;

  // What appenders touch, what the writer polls and what senders touch lie on cache lines of their own: an append costs one
  // transfer between cores, not four.
  alignas(64) std::mutex append_mutex_;
  std::uint64_t sequence_ = 0, sent_seen_ = 0;  // the latter: sent_ when it was last looked at
  alignas(64) std::atomic<std::uint64_t> posted_{0};
  std::atomic<std::uint64_t> called_{0}, ack_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};  // written under append_mutex_

  alignas(64) std::mutex send_mutex_;
  alignas(64) std::atomic<std::uint64_t> sent_{0};  // written under send_mutex_
  std::atomic<std::uint64_t> sends_{0};
  std::atomic<std::int64_t> last_sent_{0};  // ticks of the steady clock

  alignas(64) std::atomic<std::uint32_t> writer_{parked};
};

template <class Registered>
error command_stream::append(const record& r, Registered&& registered, std::uint64_t& end) {
  const std::size_t bytes = frame_header_bytes + r.body_bytes;
  auto action = flush_policy::append_action::nothing;
  {
    std::unique_lock lock(append_mutex_);
    if (const auto code = make_room(lock, bytes); code != error::ok) return code;
    const auto tail = tail_.load(std::memory_order_relaxed);
    if (!encode_at_tail(r, tail)) return error::limit_exceeded;
    registered(++sequence_);
    const bool is_call = r.kind == frame_kind::command_called;
    auto& counter = is_call ? called_ : posted_;
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    end = tail + bytes;
    // Ordered against the writer's parking: either it sees this record or we see it parked.
    tail_.store(end, std::memory_order_seq_cst);
    if (!is_call) action = decide_posted();
  }
  return carry_out(action, end);
}

}  // namespace gpuwire::wire
