// SPDX-License-Identifier: Apache-2.0
#include "wire/command_stream.hpp"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cstring>

namespace gpuwire::wire {
namespace {

// One send takes at most this much, so that the ring is given back in pieces.
constexpr std::size_t send_bytes_max = 512u << 10;

void sleep_for(std::chrono::nanoseconds length) {
  const timespec request{0, static_cast<long>(length.count())};
  nanosleep(&request, nullptr);
}

}  // namespace

error command_stream::make_room(std::unique_lock<std::mutex>& lock, std::size_t bytes) {
  for (;;) {
    if (!state_.ok()) return state_.code();
    const auto tail = tail_.load(std::memory_order_relaxed);
    if (ring_.capacity() - (tail - sent_seen_) >= bytes) return error::ok;
    sent_seen_ = sent_.load(std::memory_order_acquire);
    if (ring_.capacity() - (tail - sent_seen_) >= bytes) return error::ok;
    lock.unlock();
    net::io_result result;
    {
      std::lock_guard sending(send_mutex_);
      result = send_some(true);
    }
    if (result.status == net::io::failed) return lost(result);
    lock.lock();
  }
}

bool command_stream::encode_at_tail(const record& r, std::uint64_t tail) {
  std::byte* place = ring_.at(tail);
  frame_header header;
  header.body_bytes = static_cast<std::uint32_t>(r.body_bytes);
  header.call = r.about.call;
  header.kind = r.kind;
  header.flags = r.flags;
  header.lane = r.about.lane;
  header.context = r.about.context;
  header.sequence = sequence_ + 1;
  header.ack = ack_.load(std::memory_order_relaxed);
  std::memcpy(place, &header, sizeof header);
  encoder e(place + frame_header_bytes, r.body_bytes);
  if (r.encode) r.encode(r.message, e);
  return e.ok() && e.size() == r.body_bytes;
}

flush_policy::append_action command_stream::decide_posted() const {
  if (writer_.load(std::memory_order_seq_cst) == awake) return flush_policy::append_action::nothing;
  const flush_policy::time last(
      flush_policy::time::duration(last_sent_.load(std::memory_order_relaxed)));
  return policy_.appended(false, false, std::chrono::steady_clock::now(), last);
}

error command_stream::carry_out(flush_policy::append_action action, std::uint64_t end) {
  switch (action) {
    case flush_policy::append_action::nothing:
      return error::ok;
    case flush_policy::append_action::wake_writer:
      wake_writer();
      return error::ok;
    case flush_policy::append_action::send:
      return send_until(end);
  }
  return error::ok;
}

net::io_result command_stream::send_some(bool wait) {
  const auto head = sent_.load(std::memory_order_relaxed);
  const auto bytes = tail_.load(std::memory_order_acquire) - head;
  if (bytes == 0) return {};
  const auto result =
      socket_.send_now({ring_.at(head), std::min<std::size_t>(bytes, send_bytes_max)});
  if (result.status == net::io::done) {
    sends_.store(sends_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    last_sent_.store(now(), std::memory_order_relaxed);
    sent_.store(head + result.bytes, std::memory_order_release);
  } else if (result.status == net::io::would_wait && wait) {
    socket_.wait_writable(net::no_limit);
  }
  return result;
}

error command_stream::lost(const net::io_result& r) {
  fail_(error::connection_lost, net::error_text(r));
  return state_.code();
}

error command_stream::send_until(std::uint64_t position) {
  // Somebody who is sending right now will usually take our record along: looking again is cheaper
  // than sleeping.
  int looks = 0;
  while (sent_.load(std::memory_order_acquire) < position) {
    if (!state_.ok()) return state_.code();
    std::unique_lock lock(send_mutex_, std::defer_lock);
    if (looks < 2000 && !lock.try_lock()) {
      ++looks;
      relax();
      continue;
    }
    if (!lock.owns_lock()) lock.lock();
    net::io_result result;
    while (result.status != net::io::failed && state_.ok() &&
           sent_.load(std::memory_order_relaxed) < position)
      result = send_some(true);
    lock.unlock();
    if (result.status == net::io::failed) return lost(result);
  }
  return error::ok;
}

void command_stream::wake_writer() {
  if (writer_.exchange(awake, std::memory_order_seq_cst) == parked) unpark_all(writer_);
}

void command_stream::write_until_end() {
  // Naps of 50 us are meant as such; the usual slack would double them.
  if (policy_.few_cores()) prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  auto since = std::chrono::steady_clock::now();
  while (state_.ok()) {
    const auto end = appended();
    if (const auto sent = sent_.load(std::memory_order_acquire); sent != end) {
      const auto found = std::chrono::steady_clock::now();
      while (sent_.load(std::memory_order_acquire) < end &&
             !policy_.ripe(std::chrono::steady_clock::now() - found, appended() - sent))
        relax();
      // Whoever called in the meantime has taken all along.
      if (sent_.load(std::memory_order_acquire) < end && send_until(appended()) != error::ok)
        return;
      since = std::chrono::steady_clock::now();
      if (!policy_.few_cores()) continue;
    }
    switch (policy_.found_empty(std::chrono::steady_clock::now(), since)) {
      case flush_policy::writer_action::look_again:
        relax();
        break;
      case flush_policy::writer_action::nap:
        sleep_for(policy_.nap_us());
        break;
      case flush_policy::writer_action::park:
        writer_.store(parked, std::memory_order_seq_cst);
        if (appended() != sent_.load(std::memory_order_acquire) || !state_.ok()) {
          writer_.store(awake, std::memory_order_seq_cst);
          break;
        }
        while (writer_.load(std::memory_order_seq_cst) == parked && state_.ok())
          park(writer_, parked);
        since = std::chrono::steady_clock::now();
        break;
    }
  }
}

void command_stream::say_goodbye(std::chrono::steady_clock::time_point deadline) {
  const auto left = [deadline] {
    return std::chrono::duration_cast<std::chrono::microseconds>(deadline -
                                                                 std::chrono::steady_clock::now());
  };
  const auto locked_in_time = [&](std::unique_lock<std::mutex>& lock) {
    while (!lock.try_lock()) {
      if (left().count() <= 0) return false;
      sleep_for(std::chrono::microseconds(200));
    }
    return true;
  };
  {
    std::unique_lock lock(append_mutex_, std::defer_lock);
    if (!locked_in_time(lock)) return;
    const auto tail = tail_.load(std::memory_order_relaxed);
    const auto used = tail - sent_.load(std::memory_order_acquire);
    record r;
    r.kind = frame_kind::goodbye;
    if (ring_.capacity() - used < frame_header_bytes || !encode_at_tail(r, tail)) return;
    ++sequence_;
    tail_.store(tail + frame_header_bytes, std::memory_order_seq_cst);
  }
  std::unique_lock lock(send_mutex_, std::defer_lock);
  if (!locked_in_time(lock)) return;
  while (sent_.load(std::memory_order_relaxed) != appended()) {
    const auto before = sent_.load(std::memory_order_relaxed);
    if (send_some(false).status == net::io::failed) return;
    if (sent_.load(std::memory_order_relaxed) != before) continue;
    if (left().count() <= 0) return;
    socket_.wait_writable(left());
  }
}

}  // namespace gpuwire::wire
