// SPDX-License-Identifier: Apache-2.0
// Where callers wait for their replies. There is no reader thread: one of the waiting callers, the
// leader, reads the command socket for all of them, spinning a little before it blocks, so that a
// lone caller is never handed anything by another thread. When the leader has its own reply it
// passes the role on. Bulk receive threads put the data of a reply straight into the waiting
// caller's memory. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "wire/client.hpp"
#include "wire/frame_buffer.hpp"
#include "wire/net/socket.hpp"
#include "wire/parking.hpp"
#include "wire/session_state.hpp"

namespace gpuwire::wire {

// One caller. Lives on its stack; known to the board from add() to wait()'s return.
struct waiter {
  enum : std::uint32_t {
    waiting = 0,
    sleeping = 1,  // waiting, and a wake is needed
    leads = 2,     // was made the reader
    answered = 3,
    lost = 4,
  };
  std::atomic<std::uint32_t> state{waiting};
  std::uint64_t sequence = 0;
  reply* out = nullptr;
  std::span<std::byte> receive;
  std::uint64_t push_mark = 0;
  std::uint32_t chunks_expected = 0, chunks_arrived = 0, chunks_arriving = 0;
};

class reply_board {
 public:
  using fail_function = std::function<void(error, const std::string&)>;

  reply_board(net::socket& socket, session_state& state, int cores, fail_function fail);

  void add(waiter& w, std::uint64_t sequence);
  // Until the reply and all its bulk data are in, or the session is over. Forgets the waiter.
  error wait(waiter& w);
  // The command could not be sent: nobody will answer.
  void withdraw(waiter& w);
  void release_all();  // the session is over

  // Bulk receive threads: memory for a chunk, which stays valid until chunk_done(). Empty: nobody
  // waits for such data.
  std::span<std::byte> chunk_place(std::uint64_t sequence, std::uint64_t offset,
                                   std::uint32_t bytes);
  void chunk_done(std::uint64_t sequence, bool complete);

  std::uint64_t last_reply() const { return replies_.load(std::memory_order_relaxed); }
  std::uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_received() const { return bytes_received_.load(std::memory_order_relaxed); }

 private:
  bool try_lead();
  void follow(waiter& w);
  void lead(waiter& w);
  bool deliver_received();  // leader only; false when the session ended
  bool deliver(const frame_header& header, std::span<const std::byte> body);
  void pass_lead_on();  // mutex_ held
  waiter* find(std::uint64_t sequence);
  static bool pending(const waiter& w) {
    return w.state.load(std::memory_order_relaxed) < waiter::answered;
  }
  static void set_state(waiter& w, std::uint32_t state);

  net::socket& socket_;
  session_state& state_;
  const bool followers_spin_;
  const fail_function fail_;

  std::mutex mutex_;
  std::condition_variable chunk_arrived_;
  std::vector<waiter*> waiters_;
  bool led_ = false;

  // The leader's alone.
  frame_buffer received_;
  spin_budget spin_;
  std::atomic<std::uint64_t> replies_{0}, waits_{0}, bytes_received_{0};
};

}  // namespace gpuwire::wire
