// SPDX-License-Identifier: Apache-2.0
#include "scheduler.hpp"

#include <algorithm>
#include <ctime>

#include "capture.hpp"
#include "compute.hpp"
#include "context.hpp"
#include "fault.hpp"
#include "guard.hpp"
#include "texture.hpp"
#include "threads.hpp"

namespace gpuwire::softgpu {
namespace {

// A hardware channel holds about as many; beyond that a launch waits, as natively.
constexpr std::uint64_t stream_operations_max = 1024;
constexpr std::uint64_t poll_ns_first = 20'000;
constexpr std::uint64_t poll_ns_max = 500'000;

void mark_done(event_record& record) {
  if (record.done) return;
  record.done = true;
  record.time_ns = monotonic_ns();
}

bool complete(const fence& which) {
  if (which.record && which.record->done) return true;
  return which.of->completed >= which.sequence;
}

}  // namespace

fence fence_of(const std::shared_ptr<event_record>& record) {
  fence made = record->at;
  made.record = record;
  return made;
}

std::uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

scheduler& scheduler::instance() {
  static auto* only = new scheduler;
  return *only;
}

void scheduler::start_threads() {
  if (started_) return;
  started_ = true;
  start_thread("gpuwire-conduct", [this] { conduct(); });
}

// ---- ended kernels
// -------------------------------------------------------------------------------------------------

void scheduler::kernel_ended(std::shared_ptr<kernel_run> run) noexcept {
  kernel_run* raw = run.get();
  raw->self = std::move(run);
  kernel_run* head = ended_.load();
  do {
    raw->next_ended = head;
  } while (!ended_.compare_exchange_weak(head, raw));
  // A thread that waits takes the list after it has taken back its mark in waiters_; so one of the
  // two sees it.
  something_completed_.change();
  if (waiters_.load() > 0) {
    something_completed_.notify();
  } else {
    conductor_.change();
    conductor_.notify(1);
  }
}

void scheduler::take_ended_kernels() {
  if (ended_.load() == nullptr) return;
  kernel_run* list = ended_.exchange(nullptr);
  kernel_run* oldest_first = nullptr;
  while (list != nullptr) {
    kernel_run* next = list->next_ended;
    list->next_ended = oldest_first;
    oldest_first = list;
    list = next;
  }
  while (oldest_first != nullptr) {
    auto run = std::move(oldest_first->self);
    oldest_first = run->next_ended;
    auto on = std::move(run->on);
    if (!run->printed.empty()) on->in->print(run->printed);
    if (run->fault.kind != ptx::fault_kind::none) {
      on->in->break_with(fault_code(run->fault.kind));
      report_fault(run->fault);
      for (const auto& other : on->in->streams) {
        if (other->running && other->current.kernel) other->current.kernel->stop.store(true);
      }
      auto& legacy = *on->in->legacy;
      if (legacy.running && legacy.current.kernel) legacy.current.kernel->stop.store(true);
    }
    auto module = std::move(run->keep_alive);
    finish(on);
  }
}

// ---- the life of an operation
// --------------------------------------------------------------------------------------

void scheduler::complete(stream& which, operation& what,
                         std::vector<std::shared_ptr<stream>>& to_check) {
  which.completed = what.sequence;
  --which.in->outstanding;
  for (auto& record : what.step_records) mark_done(*record);
  complete_step(which, what, to_check);
}

void scheduler::complete_step(stream& which, operation& what,
                              std::vector<std::shared_ptr<stream>>& to_check) {
  if (what.record) mark_done(*what.record);
  for (auto& waiting : which.dependents) to_check.push_back(std::move(waiting));
  which.dependents.clear();
  signal_waiters();
}

void scheduler::signal_waiters() {
  if (waiters_.load() == 0) return;
  something_completed_.change();
  something_completed_.notify();
}

// All dependencies done? Otherwise the stream is noted at the first that is not.
bool scheduler::ready_to_run(stream& of, const operation& what,
                             const std::shared_ptr<stream>& self) {
  for (const auto& needed : what.dependencies) {
    if (softgpu::complete(needed)) continue;
    if (needed.of.get() == &of) continue;
    auto& dependents = needed.of->dependents;
    if (std::find(dependents.begin(), dependents.end(), self) == dependents.end())
      dependents.push_back(self);
    return false;
  }
  return true;
}

void scheduler::advance(const std::shared_ptr<stream>& which) {
  std::vector<std::shared_ptr<stream>> to_check{which};
  while (!to_check.empty()) {
    auto next = std::move(to_check.back());
    to_check.pop_back();
    while (!next->running && start_next(next, to_check)) {
    }
  }
}

// Begins what is next on a stream that runs nothing; false when that has to wait or there is
// nothing.
bool scheduler::start_next(const std::shared_ptr<stream>& which,
                           std::vector<std::shared_ptr<stream>>& to_check) {
  stream& at = *which;
  if (at.sequence) return start_step(which, to_check);
  if (at.queue.empty() || !ready_to_run(at, at.queue.front(), which)) return false;
  at.current = std::move(at.queue.front());
  at.queue.pop_front();
  const bool skipped = at.in->error() != CUDA_SUCCESS && !at.current.even_after_error;
  if (at.current.what == operation::kind::marker || skipped) {
    operation done = std::move(at.current);
    at.current = {};
    complete(at, done, to_check);
  } else if (at.current.what == operation::kind::sequence) {
    at.sequence = std::make_unique<operation>(std::move(at.current));
    at.current = {};
  } else {
    at.running = true;
    dispatch(which);
  }
  return true;
}

bool scheduler::start_step(const std::shared_ptr<stream>& which,
                           std::vector<std::shared_ptr<stream>>& to_check) {
  stream& at = *which;
  const bool broken = at.in->error() != CUDA_SUCCESS;
  if (!at.step && !broken) at.step = at.sequence->steps->next();
  if (!at.step || broken) {
    at.step.reset();
    auto done = std::move(at.sequence);
    complete(at, *done, to_check);
    return true;
  }
  if (!ready_to_run(at, *at.step, which)) return false;
  at.current = std::move(*at.step);
  at.step.reset();
  if (at.current.what == operation::kind::marker) {
    operation done = std::move(at.current);
    at.current = {};
    complete_step(at, done, to_check);
  } else {
    at.running = true;
    dispatch(which);
  }
  return true;
}

void scheduler::dispatch(const std::shared_ptr<stream>& which) {
  switch (which->current.what) {
    case operation::kind::kernel:
      compute_pool::instance().start(which->current.kernel);
      return;
    case operation::kind::value_wait:
      start_threads();
      value_waits_.push_back(which);
      conductor_.change();
      conductor_.notify(1);
      return;
    default:
      break;
  }
  to_serve_.push_back(which);
  if (idle_servers_ >= to_serve_.size()) {
    service_needed_.notify_one();
  } else {
    start_thread("gpuwire-service", [this] { serve(); });
  }
}

void scheduler::finish(const std::shared_ptr<stream>& which) {
  operation done = std::move(which->current);
  which->current = {};
  which->running = false;
  std::vector<std::shared_ptr<stream>> to_check;
  if (which->sequence) {
    complete_step(*which, done, to_check);
  } else {
    complete(*which, done, to_check);
  }
  advance(which);
  for (const auto& other : to_check) advance(other);
}

// ---- threads
// -------------------------------------------------------------------------------------------------------

void scheduler::serve() {
  locked lock(mutex_);
  for (;;) {
    while (to_serve_.empty()) {
      ++idle_servers_;
      service_needed_.wait(lock);
      --idle_servers_;
    }
    auto which = std::move(to_serve_.front());
    to_serve_.pop_front();
    auto run = std::move(which->current.run);
    inside_host_function = which->current.what == operation::kind::host;
    lock.unlock();
    run();
    run = nullptr;
    inside_host_function = false;
    lock.lock();
    finish(which);
  }
}

bool scheduler::poll_values() {
  bool found = false;
  for (std::size_t at = 0; at < value_waits_.size();) {
    auto which = value_waits_[at];
    if (which->in->error() == CUDA_SUCCESS && !which->current.ready()) {
      ++at;
      continue;
    }
    value_waits_.erase(value_waits_.begin() + static_cast<std::ptrdiff_t>(at));
    finish(which);
    found = true;
  }
  return found;
}

// Takes ended kernels when no other thread is there to do it, and watches the values that streams
// wait for.
void scheduler::conduct() {
  std::uint64_t pause_ns = poll_ns_first;
  for (;;) {
    const std::uint32_t seen = conductor_.value();
    bool waiting = false;
    {
      locked lock(mutex_);
      take_ended_kernels();
      pause_ns = poll_values() ? poll_ns_first : std::min(pause_ns * 3 / 2, poll_ns_max);
      waiting = !value_waits_.empty();
    }
    conductor_.wait(seen, waiting ? pause_ns : 0);
    if (conductor_.value() != seen) pause_ns = poll_ns_first;
  }
}

template <typename Condition>
void scheduler::wait_until(locked& lock, Condition condition) {
  take_ended_kernels();
  // A host function that waited for its own stream would wait for ever.
  require(!inside_host_function || condition(), CUDA_ERROR_NOT_PERMITTED);
  while (!condition()) {
    waiters_.fetch_add(1);
    const std::uint32_t seen = something_completed_.value();
    take_ended_kernels();
    if (!condition()) {
      lock.unlock();
      something_completed_.wait(seen);
      lock.lock();
    }
    waiters_.fetch_sub(1);
    take_ended_kernels();
  }
}

// ---- submitting
// ----------------------------------------------------------------------------------------------------

void scheduler::prune(context& which) {
  std::erase_if(which.streams, [](const auto& one) { return one->destroyed && !one->pending(); });
  std::erase_if(which.barriers, [](const fence& one) { return softgpu::complete(one); });
}

void scheduler::add_implicit_dependencies(stream& of, operation& what) {
  context& in = *of.in;
  if (in.outstanding == 0 && in.barriers.empty()) return;
  prune(in);
  for (const auto& barrier : in.barriers) what.dependencies.push_back(barrier);
  if (of.legacy) {
    for (const auto& other : in.streams) {
      if (other->blocking && other->pending())
        what.dependencies.push_back({other, other->submitted});
    }
  } else if (of.blocking && in.legacy->pending()) {
    what.dependencies.push_back({in.legacy, in.legacy->submitted});
  }
}

void scheduler::wait_for_room(stream& at, locked& lock) {
  take_ended_kernels();
  if (at.submitted - at.completed < stream_operations_max) return;
  wait_until(lock, [&] { return at.submitted - at.completed < stream_operations_max; });
}

fence scheduler::enqueue(const std::shared_ptr<stream>& to, operation what, locked& lock) {
  stream& at = *to;
  wait_for_room(at, lock);
  require(!at.in->closed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  start_threads();
  add_implicit_dependencies(at, what);
  what.sequence = ++at.submitted;
  ++at.in->outstanding;
  const fence made{to, what.sequence};
  if (what.record) what.record->at = made;

  const bool at_once = what.what == operation::kind::work && !at.running && !at.sequence &&
                       at.queue.empty() && at.in->error() == CUDA_SUCCESS &&
                       ready_to_run(at, what, to);
  if (!at_once) {
    at.queue.push_back(std::move(what));
    advance(to);
    return made;
  }
  at.running = true;
  auto run = std::move(what.run);
  at.current = std::move(what);
  lock.unlock();
  run();
  lock.lock();
  finish(to);
  return made;
}

fence scheduler::submit(const std::shared_ptr<stream>& to, operation what) {
  check_use_in_capture(*to);
  if (what.kernel) what.kernel->launch.textures = texture_objects::instance().snapshot();
  locked lock(mutex_);
  return enqueue(to, std::move(what), lock);
}

fence scheduler::submit_sequence(const std::shared_ptr<stream>& to, operation what,
                                 std::vector<std::shared_ptr<event_step>>& event_steps) {
  check_use_in_capture(*to);
  locked lock(mutex_);
  wait_for_room(*to, lock);
  require(!to->in->closed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  for (auto& step : event_steps) {
    if (!step->records) {
      step->bound = step->which->latest;
      continue;
    }
    step->bound = std::make_shared<event_record>();
    step->bound->at = {to, to->submitted + 1};
    step->which->latest = step->bound;
    what.step_records.push_back(step->bound);
  }
  return enqueue(to, std::move(what), lock);
}

void scheduler::record(const std::shared_ptr<stream>& to, event& which) {
  check_use_in_capture(*to);
  operation marker;
  marker.record = std::make_shared<event_record>();
  locked lock(mutex_);
  auto made = marker.record;
  enqueue(to, std::move(marker), lock);
  which.latest = std::move(made);
}

void scheduler::wait_event(const std::shared_ptr<stream>& to, event& which) {
  check_use_in_capture(*to);
  locked lock(mutex_);
  take_ended_kernels();
  if (!which.latest || which.latest->done) return;
  operation marker;
  marker.dependencies.push_back(fence_of(which.latest));
  enqueue(to, std::move(marker), lock);
}

void scheduler::record_context(context& of, event& which) {
  operation marker;
  marker.record = std::make_shared<event_record>();
  locked lock(mutex_);
  take_ended_kernels();
  marker.dependencies = fences_of(of);
  auto made = marker.record;
  enqueue(of.housekeeping, std::move(marker), lock);
  which.latest = std::move(made);
}

void scheduler::wait_event_context(context& of, event& which) {
  locked lock(mutex_);
  take_ended_kernels();
  if (which.latest && !which.latest->done) of.barriers.push_back(fence_of(which.latest));
}

// ---- waiting
// -------------------------------------------------------------------------------------------------------

std::vector<fence> scheduler::fences_of(context& which) {
  std::vector<fence> all;
  if (which.outstanding == 0) return all;
  prune(which);
  for (const auto& one : which.streams) {
    if (one->pending()) all.push_back({one, one->submitted});
  }
  for (const auto& one : {which.legacy, which.housekeeping}) {
    if (one->pending()) all.push_back({one, one->submitted});
  }
  return all;
}

// What a synchronise of the stream waits for: the legacy stream stands for all blocking ones.
std::vector<fence> scheduler::fences_of(const std::shared_ptr<stream>& which) {
  std::vector<fence> all;
  if (which->pending()) all.push_back({which, which->submitted});
  if (which->legacy && which->in->outstanding > 0) {
    for (const auto& one : which->in->streams) {
      if (one->blocking && one->pending()) all.push_back({one, one->submitted});
    }
  }
  return all;
}

void scheduler::wait(const fence& which) {
  locked lock(mutex_);
  wait_until(lock, [&] { return softgpu::complete(which); });
}

void scheduler::synchronise(const std::shared_ptr<stream>& which) {
  locked lock(mutex_);
  take_ended_kernels();
  const auto all = fences_of(which);
  if (all.empty()) return;
  wait_until(lock, [&] { return std::all_of(all.begin(), all.end(), softgpu::complete); });
}

void scheduler::synchronise(context& which) {
  locked lock(mutex_);
  take_ended_kernels();
  const auto all = fences_of(which);
  if (all.empty()) return;
  wait_until(lock, [&] { return std::all_of(all.begin(), all.end(), softgpu::complete); });
}

bool scheduler::idle(const std::shared_ptr<stream>& which) {
  locked lock(mutex_);
  take_ended_kernels();
  return fences_of(which).empty();
}

std::shared_ptr<event_record> scheduler::latest(event& which) {
  locked lock(mutex_);
  return which.latest;
}

bool scheduler::done(const event_record& record) {
  locked lock(mutex_);
  take_ended_kernels();
  return record.done;
}

void scheduler::wait(const event_record& record) {
  locked lock(mutex_);
  wait_until(lock, [&] { return record.done; });
}

void scheduler::add_stream(context& to, std::shared_ptr<stream> made) {
  locked lock(mutex_);
  require(!to.closed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  to.streams.push_back(std::move(made));
}

void scheduler::destroy_stream(const std::shared_ptr<stream>& which) {
  locked lock(mutex_);
  which->destroyed = true;
  prune(*which->in);
}

void scheduler::close(context& which) {
  {
    locked lock(mutex_);
    which.closed = true;
  }
  synchronise(which);
  locked lock(mutex_);
  which.streams.clear();
  which.barriers.clear();
}

}  // namespace gpuwire::softgpu
