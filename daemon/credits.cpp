// SPDX-License-Identifier: Apache-2.0
#include "daemon/credits.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "daemon/contexts.hpp"
#include "daemon/daemon_thread.hpp"
#include "daemon/worker.hpp"
#include "wire/generated/messages_internal.hpp"

namespace gpuwire::daemon {

void credit_keeper::start() {
  start_thread(worker_, "gpuwire-credit", [this] { run(); });
}

void credit_keeper::count(const credit_key& key, std::uint64_t bytes, CUstream native,
                          std::uint32_t stream_context) {
  take_gone_contexts();
  const bool due = ledger_.count(key, bytes);
  if (!due && bytes == 0) return;
  auto& place = places_[key];
  place.native = native;
  place.context = stream_context;
  if (due) place_marker(key, place);
  if (!ledger_.session_due()) return;
  const auto before = stream_context;
  for (const auto& other : ledger_.streams_with_unmarked_bytes())
    place_marker(other, places_[other]);
  enter_context(worker_, before);
}

void credit_keeper::place_marker(const credit_key& key, stream_place& place) {
  capture_mode_scope relaxed(worker_.driver(), CU_STREAM_CAPTURE_MODE_RELAXED);
  marker m;
  const auto totals = ledger_.mark(key);
  m.key = key;
  m.operations = totals.operations;
  m.bytes = totals.bytes;
  m.context = place.context;
  enter_context(worker_, place.context);
  if (worker_.captures.touches(place.native)) {
    // Nothing of ours belongs into a capture, and what was captured is not outstanding: it is complete when the
    // operations before the capture are, the last of which has a marker or too few to matter followed.
    if (!place.word) return tell(m);
    m.word = place.word;
    m.value = place.word->value;
  } else if (!write_word(m, place)) {
    auto problem = CUDA_SUCCESS;
    m.event = worker_.events.acquire(place.context, problem);
    if (problem == CUDA_SUCCESS) problem = worker_.driver().cuEventRecord(m.event, place.native);
    // A context that refuses even this will not run anything any more: nobody may wait for it.
    if (problem != CUDA_SUCCESS) return tell(m);
  }
  std::lock_guard lock(mutex_);
  m.serial = ++last_serial_;
  outstanding_.push_back(std::move(m));
  changed_.notify_one();
}

bool credit_keeper::write_word(marker& m, stream_place& place) {
  const auto& d = worker_.driver();
  const auto write = d.cuStreamWriteValue32_v2 ? d.cuStreamWriteValue32_v2 : d.cuStreamWriteValue32;
  if (!words_work_ || write == nullptr) return false;
  if (!place.word) place.word = worker_.words.take(place.context);
  if (!place.word) return words_work_ = false;
  const auto value = place.word->value + 1;
  if (write(place.native, place.word->device, value, CU_STREAM_WRITE_VALUE_DEFAULT) != CUDA_SUCCESS)
    return words_work_ = false;
  place.word->value = value;
  m.word = place.word;
  m.value = value;
  return true;
}

void credit_keeper::stream_gone(const credit_key& key) {
  ledger_.forget(key);
  places_.erase(key);
}

void credit_keeper::lane_gone(std::uint32_t lane) {
  ledger_.forget_lane(lane);
  std::erase_if(places_, [&](const auto& entry) { return lane != 0 && entry.first.lane == lane; });
}

void credit_keeper::settle(std::uint32_t context) {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [&, until = last_serial_] {
    return std::none_of(outstanding_.begin(), outstanding_.end(),
                        [&](const marker& m) { return m.context == context && m.serial <= until; });
  });
}

void credit_keeper::context_gone(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  std::erase_if(outstanding_, [&](const marker& m) { return m.context == context; });
  gone_contexts_.push_back(context);
  any_gone_.store(true, std::memory_order_release);
}

void credit_keeper::take_gone_contexts() {
  if (!any_gone_.load(std::memory_order_acquire)) return;
  std::vector<std::uint32_t> gone;
  {
    std::lock_guard lock(mutex_);
    gone.swap(gone_contexts_);
    any_gone_.store(false, std::memory_order_release);
  }
  for (const auto context : gone) {
    std::vector<credit_key> keys;
    for (const auto& [key, place] : places_) {
      if (place.context == context) keys.push_back(key);
    }
    for (const auto& key : keys) stream_gone(key);
    ledger_.forget_context(context);
  }
}

bool credit_keeper::complete(marker& m) {
  if (m.word) return m.word->has_reached(m.value);
  enter_context(worker_, m.context);
  if (worker_.driver().cuEventQuery(m.event) == CUDA_ERROR_NOT_READY) return false;
  worker_.events.release(m.event, m.context);
  return true;
}

void credit_keeper::tell(const marker& m) {
  msg::credit::request notice;
  notice.stream = m.key.stream;
  notice.context = m.key.context;
  notice.operations_completed = m.operations;
  notice.bytes_completed = m.bytes;
  (void)worker_.session->push(notice, msg::credit::call_id, m.key.lane);
}

void credit_keeper::run() {
  auto pause = limits::credit_sleep_min;
  for (;;) {
    std::vector<marker> done;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !outstanding_.empty(); });
      // Nothing here waits for the GPU, so a context cannot go while its events are looked at.
      std::erase_if(outstanding_, [&](marker& m) {
        if (!complete(m)) return false;
        done.push_back(std::move(m));
        return true;
      });
    }
    if (!done.empty()) settled_.notify_all();
    for (const auto& m : done) tell(m);
    pause = done.empty() ? std::min(pause * 2, limits::credit_sleep_max) : limits::credit_sleep_min;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace gpuwire::daemon
