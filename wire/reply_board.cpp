// SPDX-License-Identifier: Apache-2.0
#include "wire/reply_board.hpp"

#include <algorithm>
#include <cstring>

#include "wire/limits.hpp"
#include "wire/parking.hpp"

namespace gpuwire::wire {

// The way into a reply for the parts of the client that fill it.
struct client_parts {
  static void fill(reply& out, std::int32_t result, std::span<const std::byte> body) {
    out.result = result;
    // Never shrinks: growing again would write zeros over memory that is overwritten anyway.
    if (out.storage_.size() < body.size()) out.storage_.resize(body.size());
    if (!body.empty()) std::memcpy(out.storage_.data(), body.data(), body.size());
    out.body_offset_ = 0;
    out.body_bytes_ = body.size();
  }
};

reply_board::reply_board(net::socket& socket, session_state& state, int cores, fail_function fail)
    : socket_(socket),
      state_(state),
      followers_spin_(cores > 2),
      fail_(std::move(fail)),
      received_(256u << 10, limits::reply_bytes_max),
      spin_(cores, limits::spin_us) {}

void reply_board::set_state(waiter& w, std::uint32_t state) {
  // The waiter may be gone once it has seen the state; waking an address where nobody waits is
  // harmless.
  if (w.state.exchange(state, std::memory_order_acq_rel) == waiter::sleeping) unpark_all(w.state);
}

void reply_board::add(waiter& w, std::uint64_t sequence) {
  w.sequence = sequence;
  std::lock_guard lock(mutex_);
  waiters_.push_back(&w);
}

void reply_board::withdraw(waiter& w) {
  std::unique_lock lock(mutex_);
  chunk_arrived_.wait(lock, [&w] { return w.chunks_arriving == 0; });
  std::erase(waiters_, &w);
  if (w.state.load(std::memory_order_relaxed) == waiter::leads) pass_lead_on();
}

waiter* reply_board::find(std::uint64_t sequence) {
  for (auto* w : waiters_) {
    if (w->sequence == sequence) return w;
  }
  return nullptr;
}

error reply_board::wait(waiter& w) {
  bool leading = false;
  for (;;) {
    const auto state = w.state.load(std::memory_order_acquire);
    if (state >= waiter::answered) break;
    leading = state == waiter::leads || try_lead();
    if (!leading) {
      follow(w);
      continue;
    }
    lead(w);
    break;
  }
  std::unique_lock lock(mutex_);
  if (leading) pass_lead_on();
  const auto in = [&] { return w.chunks_arrived >= w.chunks_expected || !state_.ok(); };
  if (!in() || w.chunks_arriving != 0)
    chunk_arrived_.wait(lock, [&] { return in() && w.chunks_arriving == 0; });
  std::erase(waiters_, &w);
  const bool complete = w.state.load(std::memory_order_acquire) == waiter::answered &&
                        w.chunks_arrived >= w.chunks_expected;
  return complete ? error::ok : state_.code();
}

bool reply_board::try_lead() {
  std::lock_guard lock(mutex_);
  return !std::exchange(led_, true);
}

void reply_board::pass_lead_on() {
  for (auto* w : waiters_) {
    if (!pending(*w)) continue;
    set_state(*w, waiter::leads);
    return;
  }
  led_ = false;
}

void reply_board::follow(waiter& w) {
  if (followers_spin_) {
    const spin_limit limit(limits::spin_us);
    while (!limit.over()) {
      if (w.state.load(std::memory_order_acquire) != waiter::waiting) return;
      relax();
    }
  }
  // Under the lock, so that a leader that leaves now does not overlook this one.
  {
    std::lock_guard lock(mutex_);
    if (!led_) return;
    std::uint32_t expected = waiter::waiting;
    if (!w.state.compare_exchange_strong(expected, waiter::sleeping)) return;
  }
  while (w.state.load(std::memory_order_acquire) == waiter::sleeping)
    park(w.state, waiter::sleeping);
}

void reply_board::lead(waiter& w) {
  const auto length = spin_.next();
  const spin_limit limit(length);
  bool blocked = false;
  for (;;) {
    if (!deliver_received()) return;
    if (w.state.load(std::memory_order_relaxed) >= waiter::answered) {
      if (length.count() != 0) spin_.spun(blocked);
      return;
    }
    const auto result = socket_.receive_now(received_.space());
    switch (result.status) {
      case net::io::done:
        received_.filled(result.bytes);
        bytes_received_.store(bytes_received_.load(std::memory_order_relaxed) + result.bytes,
                              std::memory_order_relaxed);
        break;
      case net::io::would_wait:
        if (!state_.ok()) return;
        if (limit.over()) {
          blocked = true;
          waits_.fetch_add(1, std::memory_order_relaxed);
          socket_.wait_readable(net::no_limit);
        }
        break;
      case net::io::closed:
      case net::io::failed:
        fail_(error::connection_lost, net::error_text(result));
        return;
    }
  }
}

bool reply_board::deliver_received() {
  frame_header header;
  std::span<const std::byte> body;
  for (;;) {
    switch (const auto status = received_.next(header, body)) {
      case frame_buffer::status::incomplete:
        return true;
      case frame_buffer::status::complete:
        if (deliver(header, body)) break;
        fail_(error::protocol_violation, "the server sent a reply that nobody waits for");
        return false;
      case frame_buffer::status::too_large:
      case frame_buffer::status::malformed:
        fail_(error::protocol_violation, std::string("the server sent ") + describe(status));
        return false;
    }
  }
}

bool reply_board::deliver(const frame_header& header, std::span<const std::byte> body) {
  if (header.kind != frame_kind::reply || body.size() < reply_prefix_bytes) return false;
  if (header.sequence != replies_.load(std::memory_order_relaxed) + 1) return false;
  reply_prefix prefix;
  std::memcpy(&prefix, body.data(), sizeof prefix);
  std::lock_guard lock(mutex_);
  auto* w = find(prefix.answers);
  if (!w || !pending(*w)) return false;
  client_parts::fill(*w->out, prefix.result, body.subspan(reply_prefix_bytes));
  w->push_mark = prefix.push_mark;
  w->chunks_expected = prefix.bulk_chunks;
  replies_.store(header.sequence, std::memory_order_relaxed);
  set_state(*w, waiter::answered);
  return true;
}

void reply_board::release_all() {
  std::lock_guard lock(mutex_);
  for (auto* w : waiters_) {
    if (pending(*w)) set_state(*w, waiter::lost);
  }
  chunk_arrived_.notify_all();
}

std::span<std::byte> reply_board::chunk_place(std::uint64_t sequence, std::uint64_t offset,
                                              std::uint32_t bytes) {
  std::lock_guard lock(mutex_);
  auto* w = find(sequence);
  if (!w || !state_.ok()) return {};
  if (offset > w->receive.size() || bytes > w->receive.size() - offset) return {};
  ++w->chunks_arriving;
  return w->receive.subspan(static_cast<std::size_t>(offset), bytes);
}

void reply_board::chunk_done(std::uint64_t sequence, bool complete) {
  std::lock_guard lock(mutex_);
  auto* w = find(sequence);
  if (!w) return;
  --w->chunks_arriving;
  if (complete) ++w->chunks_arrived;
  chunk_arrived_.notify_all();
}

}  // namespace gpuwire::wire
