// SPDX-License-Identifier: Apache-2.0
#include "daemon/deliveries.hpp"

#include <algorithm>

#include "daemon/contexts.hpp"
#include "daemon/daemon_thread.hpp"
#include "daemon/limits.hpp"
#include "daemon/worker.hpp"
#include "wire/generated/messages_host.hpp"

namespace gpuwire::daemon {

void deliveries::add(delivery d) {
  std::lock_guard lock(mutex_);
  entry e;
  e.what = std::move(d);
  e.serial = ++last_serial_;
  entries_.push_back(std::move(e));
  count_.fetch_add(1, std::memory_order_release);
  nudge();
}

void deliveries::drop(std::uint64_t sequence, std::uint32_t lane) {
  msg::delivery_over::request m;
  m.sequence = sequence;
  m.dropped = true;
  (void)worker_.session->push(m, msg::delivery_over::call_id, lane);
}

// Streams finish in order, so behind one that is not ready the others of its stream need not be
// asked. mutex_ held; nothing here waits for the GPU.
void deliveries::find_complete() {
  std::vector<CUstream> busy;
  for (auto& e : entries_) {
    if (e.complete) continue;
    if (std::find(busy.begin(), busy.end(), e.what.stream) != busy.end()) continue;
    enter_context(worker_, e.what.context);
    if (worker_.driver().cuEventQuery(e.what.event) == CUDA_ERROR_NOT_READY)
      busy.push_back(e.what.stream);
    else
      e.complete = true;
  }
}

// Bytes of an earlier delivery into the same place may still be on their way on another connection
// and would be written over those of this one.
bool deliveries::is_held_up(const delivery& d) {
  std::lock_guard lock(light_mutex_);
  return std::any_of(unreceived_.begin(), unreceived_.end(), [&](const unreceived& u) {
    return u.range == d.range && u.offset < d.offset + d.bytes && d.offset < u.offset + u.bytes;
  });
}

void deliveries::finish(std::list<entry>::iterator at) {
  worker_.events.release(at->what.event, at->what.context);
  worker_.inline_staging.release(at->what.block);
  entries_.erase(at);
  count_.fetch_sub(1, std::memory_order_release);
  gone_.notify_all();
}

// Pushes never wait, so this is done under the lock, which keeps their order.
bool deliveries::send_small() {
  bool sent = false;
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto here = at++;
    if (!here->complete || here->what.source || is_held_up(here->what)) continue;
    enter_context(worker_, here->what.context);
    if (worker_.driver().cuEventQuery(here->what.event) == CUDA_SUCCESS) {
      msg::delivery_data::request m;
      m.sequence = here->what.sequence;
      m.data = {here->what.data, here->what.bytes};
      (void)worker_.session->push(m, msg::delivery_data::call_id, here->what.lane);
    } else {
      drop(here->what.sequence, here->what.lane);
    }
    finish(here);
    sent = true;
  }
  return sent;
}

// The delivering thread alone sends these, one after the other.
bool deliveries::send_large(lock_type& lock) {
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) {
    return e.complete && e.what.source && !is_held_up(e.what);
  });
  if (at == entries_.end()) return false;
  at->sending = true;
  const delivery& d = at->what;  // nobody else takes it out
  enter_context(worker_, d.context);
  if (worker_.driver().cuEventQuery(d.event) == CUDA_SUCCESS) {
    {
      std::lock_guard light(light_mutex_);
      unreceived_.push_back({d.sequence, d.range, d.offset, d.bytes});
    }
    lock.unlock();
    // A lost connection ends the worker.
    (void)worker_.session->send_unasked_bulk(d.sequence, {d.data, d.bytes});
    msg::delivery_over::request m;
    m.sequence = d.sequence;
    (void)worker_.session->push(m, msg::delivery_over::call_id, d.lane);
    lock.lock();
  } else {
    drop(d.sequence, d.lane);
  }
  finish(at);
  return true;
}

bool deliveries::try_settle() {
  lock_type lock(mutex_);
  find_complete();
  send_small();
  const bool settled =
      std::none_of(entries_.begin(), entries_.end(), [](const entry& e) { return e.complete; });
  if (!settled) nudge();
  return settled;
}

std::vector<std::uint64_t> deliveries::complete_serials() const {
  std::vector<std::uint64_t> serials;
  for (const auto& e : entries_)
    if (e.complete) serials.push_back(e.serial);
  return serials;
}

bool deliveries::any_left(const std::vector<std::uint64_t>& serials) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const entry& e) {
    return std::binary_search(serials.begin(), serials.end(), e.serial);
  });
}

void deliveries::settle() {
  if (!any()) return;
  lock_type lock(mutex_);
  find_complete();
  send_small();
  const auto serials = complete_serials();
  if (serials.empty()) return;
  nudge();
  gone_.wait(lock, [&] { return !any_left(serials); });
}

void deliveries::settle_range(std::uint64_t range) {
  lock_type lock(mutex_);
  nudge();
  gone_.wait(lock, [&] {
    return std::none_of(entries_.begin(), entries_.end(),
                        [&](const entry& e) { return e.what.range == range; });
  });
}

void deliveries::settle_context(std::uint32_t context) {
  lock_type lock(mutex_);
  nudge();
  gone_.wait(lock, [&] {
    return std::none_of(entries_.begin(), entries_.end(),
                        [&](const entry& e) { return e.what.context == context; });
  });
}

void deliveries::when_settled(std::function<void()> then) {
  std::lock_guard lock(light_mutex_);
  start();
  inbox_.push_back(std::move(then));
  nudged_ = true;
  wake_.notify_one();
}

void deliveries::run_barriers(lock_type& lock) {
  for (auto& b : barriers_) {
    if (!b.taken) b.serials = complete_serials();
    b.taken = true;
  }
  while (!barriers_.empty() && !any_left(barriers_.front().serials)) {
    const auto then = std::move(barriers_.front().then);
    barriers_.pop_front();
    lock.unlock();
    then();
    lock.lock();
  }
}

void deliveries::received(std::uint64_t sequence) {
  std::lock_guard lock(light_mutex_);
  std::erase_if(unreceived_, [&](const unreceived& u) { return u.sequence == sequence; });
  nudged_ = true;
  wake_.notify_one();
}

void deliveries::context_gone(std::uint32_t context) {
  lock_type lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto here = at++;
    if (here->what.context != context || here->sending) continue;
    drop(here->what.sequence, here->what.lane);
    here->what.event = nullptr;
    finish(here);
  }
}

void deliveries::start() {
  if (started_) return;
  started_ = true;
  start_thread(worker_, "gpuwire-deliver", [this] { run(); });
}

void deliveries::nudge() {
  std::lock_guard lock(light_mutex_);
  start();
  nudged_ = true;
  wake_.notify_one();
}

void deliveries::wait_for_work() {
  std::unique_lock lock(light_mutex_);
  if (any() || !barriers_.empty())
    wake_.wait_for(lock, pause_, [this] { return nudged_; });
  else
    wake_.wait(lock, [this] { return nudged_; });
  pause_ = nudged_ ? limits::delivery_sleep_min : std::min(pause_ * 2, limits::delivery_sleep_max);
  nudged_ = false;
  for (auto& then : inbox_) barriers_.push_back({{}, std::move(then), false});
  inbox_.clear();
}

void deliveries::run() {
  for (;;) {
    wait_for_work();
    lock_type lock(mutex_);
    bool sent = true;
    while (sent) {
      find_complete();
      run_barriers(lock);
      sent = send_small();
      sent = send_large(lock) || sent;
    }
    run_barriers(lock);
  }
}

}  // namespace gpuwire::daemon
