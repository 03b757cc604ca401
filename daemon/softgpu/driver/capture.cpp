// SPDX-License-Identifier: Apache-2.0
#include "capture.hpp"

#include <algorithm>
#include <set>

#include "scheduler.hpp"

namespace gpuwire::softgpu {
namespace {

// For the look without a lock. Captures that were never ended keep it above zero.
std::atomic<unsigned> captures_active{0};

std::vector<std::shared_ptr<capture>>& all_captures() {
  static auto* list = new std::vector<std::shared_ptr<capture>>;
  return *list;
}

bool none_active() {
  return captures_active.load(std::memory_order_acquire) == 0;
}

capture_member& join(const std::shared_ptr<capture>& which, const std::shared_ptr<stream>& one) {
  auto& member = which->members[one.get()];
  member.which = one;
  one->capturing = which;
  one->is_capturing.store(true, std::memory_order_release);
  return member;
}

void leave(stream& one) {
  one.capturing.reset();
  one.is_capturing.store(false, std::memory_order_release);
}

// The capture is over. Its streams are as before; the graph is the caller's or nobody's.
std::shared_ptr<graph> finish(const std::shared_ptr<capture>& which) {
  for (auto& [one, member] : which->members) {
    if (one->capturing == which) leave(*one);
  }
  which->ended = true;
  --which->into->captures;
  // Events may keep the capture for long, but not its graph.
  auto made = std::move(which->into);
  std::erase(all_captures(), which);
  captures_active.fetch_sub(1, std::memory_order_release);
  return made;
}

void finish_without_graph(const std::shared_ptr<capture>& which) {
  auto made = finish(which);
  // A graph of the program's own goes too, as natively, unless a node holds it.
  if (!made->is_inner) forget_graph(*made);
}

// The capture of the stream, under the lock. Refuses when it is invalid.
std::shared_ptr<capture> valid_capture(const stream& on) {
  auto found = on.capturing;
  require(found != nullptr, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  require(found->valid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  return found;
}

[[noreturn]] void invalidate_and_refuse(capture& which, CUresult code) {
  which.valid = false;
  refuse(code);
}

// Whether every node that a stream still has at its end leads to the origin's end.
bool all_joined(const capture& which) {
  std::set<const graph_node*> reached;
  std::vector<const graph_node*> to_visit;
  const auto& origin = which.members.at(which.origin);
  for (const auto& edge : origin.next_dependencies) to_visit.push_back(edge.other);
  while (!to_visit.empty()) {
    const auto* node = to_visit.back();
    to_visit.pop_back();
    if (!reached.insert(node).second) continue;
    for (const auto& edge : node->dependencies) to_visit.push_back(edge.other);
  }
  for (const auto& [one, member] : which.members) {
    for (const auto& edge : member.next_dependencies) {
      if (reached.count(edge.other) == 0) return false;
    }
  }
  return true;
}

bool prohibits(const capture& which, CUstreamCaptureMode thread_mode) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (which.thread == std::this_thread::get_id())
    return which.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  return thread_mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
         which.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

template <typename Condition>
void refuse_for(Condition condition, CUresult code) {
  if (none_active()) return;
  std::lock_guard lock(graph_mutex());
  bool found = false;
  for (const auto& one : all_captures()) {
    if (!condition(*one)) continue;
    one->valid = false;
    found = true;
  }
  require(!found, code);
}

bool has_member(const capture& which, const context& in, bool blocking_only) {
  return std::any_of(which.members.begin(), which.members.end(), [&](const auto& entry) {
    const stream& one = *entry.first;
    return one.in == &in && (one.blocking || !blocking_only);
  });
}

// A wait, in a capturing stream, for an event that was not captured.
void wait_outside_capture(const stream& on, event& mark) {
  auto into = valid_capture(on);
  // As natively: nothing to wait for is fine, an event from outside the capture is not.
  if (scheduler::instance().latest(mark) == nullptr) return;
  invalidate_and_refuse(*into, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
}

}  // namespace

bool is_capturing(const stream& which) {
  return which.is_capturing.load(std::memory_order_acquire);
}

CUgraphNode capture_node(const std::shared_ptr<stream>& on, node_payload payload,
                         bool programmatic) {
  std::lock_guard lock(graph_mutex());
  auto into = valid_capture(*on);
  auto& member = into->members.at(on.get());
  for (auto& edge : member.next_dependencies) {
    if (!programmatic || edge.other->type() != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    edge.data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    edge.data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  auto made = add_node(*into->into, std::move(payload), member.next_dependencies);
  member.next_dependencies = {{made.get(), {}}};
  return made->handle;
}

void record_event(const std::shared_ptr<stream>& on, event& mark) {
  if (is_capturing(*on)) {
    std::lock_guard lock(graph_mutex());
    auto in = valid_capture(*on);
    mark.captured = std::make_shared<captured_point>(
        captured_point{in, in->members.at(on.get()).next_dependencies});
    mark.is_captured.store(true, std::memory_order_release);
    return;
  }
  scheduler::instance().record(on, mark);
  if (!mark.is_captured.load(std::memory_order_acquire)) return;
  std::lock_guard lock(graph_mutex());
  mark.captured.reset();
  mark.is_captured.store(false, std::memory_order_release);
}

void wait_for_event(const std::shared_ptr<stream>& on, event& mark) {
  if (!is_capturing(*on) && !mark.is_captured.load(std::memory_order_acquire)) {
    scheduler::instance().wait_event(on, mark);
    return;
  }
  std::lock_guard lock(graph_mutex());
  if (!mark.captured) return wait_outside_capture(*on, mark);
  auto from = mark.captured->in;
  auto into = on->capturing;
  if (into) require(into->valid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  if (from->ended) {
    if (into) into->valid = false;
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  if (on->legacy) invalidate_and_refuse(*from, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  if (into && into != from) {
    into->valid = false;
    invalidate_and_refuse(*from, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  require(from->valid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  add_missing_edges(join(from, on).next_dependencies, mark.captured->nodes);
}

void check_unsafe_call() {
  const auto mode = thread_capture_mode();
  refuse_for([&](const capture& one) { return prohibits(one, mode); },
             CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void check_call_on(const stream& which) {
  if (which.legacy) check_legacy_use(*which.in);
  refuse_for([&](const capture& one) { return which.capturing.get() == &one; },
             CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void check_call_on(context& which) {
  refuse_for([&](const capture& one) { return has_member(one, which, false); },
             CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void check_legacy_use(context& in) {
  refuse_for([&](const capture& one) { return has_member(one, in, true); },
             CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

void check_legacy_question(const context& in) {
  for (const auto& one : all_captures())
    require(!has_member(*one, in, true), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

void check_use_in_capture(const stream& on) {
  if (none_active()) return;
  check_call_on(on);
}

void check_event_not_captured(event& which, bool invalidates) {
  if (!which.is_captured.load(std::memory_order_acquire)) return;
  std::lock_guard lock(graph_mutex());
  if (!which.captured) return;
  auto& in = *which.captured->in;
  require(!in.ended);
  if (invalidates) in.valid = false;
  refuse(CUDA_ERROR_CAPTURED_EVENT);
}

void leave_capture(stream& which) {
  if (!is_capturing(which)) return;
  std::lock_guard lock(graph_mutex());
  auto in = which.capturing;
  if (!in) return;
  if (in->origin == &which) {
    finish_without_graph(in);
  } else {
    // The member stays, so that work which was never joined is found at the end.
    leave(which);
  }
}

void end_captures_of(const context& ended) {
  if (none_active()) return;
  std::lock_guard lock(graph_mutex());
  const auto all = all_captures();
  for (const auto& one : all) {
    if (!has_member(*one, ended, false)) continue;
    finish_without_graph(one);
  }
}

void add_missing_edges(std::vector<graph_edge>& to, const std::vector<graph_edge>& more) {
  for (const auto& edge : more) {
    const bool there = std::any_of(to.begin(), to.end(),
                                   [&](const graph_edge& one) { return one.other == edge.other; });
    if (!there) to.push_back(edge);
  }
}

CUstreamCaptureMode& thread_capture_mode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

void begin_capture(const std::shared_ptr<stream>& on, CUstreamCaptureMode mode,
                   std::shared_ptr<graph> into, std::vector<graph_edge> dependencies) {
  static cuuint64_t last_id = 0;
  require(!on->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  require(!on->capturing && (!into || into->captures == 0), CUDA_ERROR_ILLEGAL_STATE);
  auto made = std::make_shared<capture>();
  made->id = ++last_id;
  made->mode = mode;
  made->thread = std::this_thread::get_id();
  made->origin = on.get();
  made->into = into ? std::move(into) : make_graph();
  ++made->into->captures;
  join(made, on).next_dependencies = std::move(dependencies);
  all_captures().push_back(std::move(made));
  captures_active.fetch_add(1, std::memory_order_release);
}

CUgraph end_capture(const std::shared_ptr<stream>& on) {
  auto which = on->capturing;
  require(which != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  if (which->origin != on.get()) invalidate_and_refuse(*which, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  CUresult code = CUDA_SUCCESS;
  const bool own_thread =
      which->mode == CU_STREAM_CAPTURE_MODE_RELAXED || which->thread == std::this_thread::get_id();
  if (!which->valid) {
    code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!own_thread) {
    code = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  } else if (!all_joined(*which)) {
    code = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  if (code != CUDA_SUCCESS) {
    finish_without_graph(which);
    refuse(code);
  }
  return finish(which)->handle;
}

}  // namespace gpuwire::softgpu
