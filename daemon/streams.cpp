// SPDX-License-Identifier: Apache-2.0
// Streams, events and the waits on them. Streams and events are numbered by the client, so that
// making one costs no round trip.
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/pending_wait.hpp"

namespace gpuwire::daemon::custom {
namespace {

enum class sync_scope : std::uint8_t { stream = 0, context = 1, event = 2 };

// An event of the daemon's own, recorded where the program stands. The legacy stream is no
// exception: an event recorded in it comes after all earlier work of the blocking streams, just
// what a synchronise of that stream waits for, and unlike the real call it can be placed without
// waiting and does not grow with what other threads append meanwhile.
template <class Record>
outcome wait_for_record(call_context& c, std::uint32_t context, const Record& record,
                        bool* not_supported = nullptr) {
  auto& w = c.owner();
  c.enter(context);
  auto problem = CUDA_SUCCESS;
  pending_wait wait;
  wait.event = w.events.acquire(context, problem);
  wait.context = context;
  if (problem == CUDA_SUCCESS) problem = record(wait.event);
  if (problem != CUDA_SUCCESS) {
    w.events.release(wait.event, context);
    if (not_supported != nullptr && problem == CUDA_ERROR_NOT_SUPPORTED) {
      *not_supported = true;
      return c.deferred();
    }
    w.publish();
    return c.finish<msg::sync>(problem, {});
  }
  return c.wait(wait);
}

outcome sync_context(call_context& c, std::uint64_t handle) {
  const auto& d = c.driver();
  auto context = c.ticket().context;
  if (handle != 0) {
    (void)c.native<handle_kind::context>(handle);
    if (c.failed()) return c.finish<msg::sync>(c.failure(), {});
    context = wire::handle_index(handle);
  }
  if (!c.enter(context) || context == 0) return c.finish<msg::sync>(CUDA_ERROR_INVALID_CONTEXT, {});
  // The driver refuses at once when a stream of the context captures, and says it in its own way.
  if (c.owner().captures.any() && c.owner().captures.in_context(context))
    return c.finish<msg::sync>(d.cuCtxSynchronize(), {});
  if (d.cuCtxRecordEvent != nullptr) {
    const auto found = c.owner().handles(handle_kind::context).find_index(context);
    if (found) {
      bool not_supported = false;
      const auto record = [&](CUevent event) {
        return d.cuCtxRecordEvent(static_cast<CUcontext>(found->native), event);
      };
      const auto result = wait_for_record(c, context, record, &not_supported);
      if (!not_supported) return result;
    }
  }
  // A driver that cannot: the real call, on a thread that may wait.
  c.owner().lanes.run(c.ticket().lane, [&w = c.owner(), ticket = c.ticket(), context] {
    enter_context(w, context);
    const auto result = w.driver().cuCtxSynchronize();
    w.deliveries_to_client.settle();
    w.publish();
    w.answer<msg::sync>(ticket, result, {});
  });
  return c.deferred();
}

}  // namespace

outcome sync(call_context& c, const msg::sync::request& q) {
  switch (static_cast<sync_scope>(q.scope)) {
    case sync_scope::stream: {
      const auto s = c.stream_of(q.handle);
      if (c.failed()) return c.finish<msg::sync>(c.failure(), {});
      if (s.context == 0) return c.finish<msg::sync>(CUDA_ERROR_INVALID_CONTEXT, {});
      if (c.enter(s.context) && c.owner().captures.touches(s.native))
        return c.finish<msg::sync>(c.owner().captures.refusal(s.native), {});
      return wait_for_record(
          c, s.context, [&](CUevent event) { return c.driver().cuEventRecord(event, s.native); });
    }
    case sync_scope::context:
      return sync_context(c, q.handle);
    case sync_scope::event: {
      const auto found = c.owner().handles(handle_kind::event).find(q.handle);
      if (!found) return c.finish<msg::sync>(CUDA_ERROR_INVALID_HANDLE, {});
      pending_wait wait;
      wait.event = static_cast<CUevent>(found->native);
      wait.context = found->context;
      wait.pooled = false;
      return c.wait(wait);
    }
  }
  return c.malformed();
}

namespace {

// Complete also means: what was copied to the client before is there.
template <class Call>
outcome answer_query(call_context& c, CUresult result) {
  auto& w = c.owner();
  if (result != CUDA_SUCCESS) return c.finish<Call>(result, {});
  if (!w.deliveries_to_client.any() || w.deliveries_to_client.try_settle()) {
    w.direct.publish();
    return c.finish<Call>(result, {});
  }
  w.lanes.run(c.ticket().lane, [&w, ticket = c.ticket()] {
    w.deliveries_to_client.settle();
    w.direct.publish();
    w.answer<Call>(ticket, CUDA_SUCCESS, {});
  });
  return c.deferred();
}

}  // namespace

outcome cuStreamQuery(call_context& c, const msg::cuStreamQuery::request& q) {
  const auto stream = c.stream(q.hStream);
  const auto result = c.failed() ? c.failure() : c.driver().cuStreamQuery(stream);
  return answer_query<msg::cuStreamQuery>(c, result);
}

outcome cuEventQuery(call_context& c, const msg::cuEventQuery::request& q) {
  const auto event = c.native<handle_kind::event>(q.hEvent);
  const auto result = c.failed() ? c.failure() : c.driver().cuEventQuery(event);
  return answer_query<msg::cuEventQuery>(c, result);
}

outcome lane_end(call_context& c, const msg::lane_end::request&) {
  auto& w = c.owner();
  w.streams_of_threads.lane_gone(c.ticket());
  w.credits.lane_gone(c.ticket().lane);
  w.captures.lane_gone(c.ticket().lane);
  w.lanes.end(c.ticket().lane);
  return c.finish<msg::lane_end>(CUDA_SUCCESS, {});
}

outcome stream_create(call_context& c, const msg::stream_create::request& q) {
  const auto& d = c.driver();
  CUstream stream = nullptr;
  const auto result = d.cuStreamCreateWithPriority
                          ? d.cuStreamCreateWithPriority(&stream, q.flags, q.priority)
                          : d.cuStreamCreate(&stream, q.flags);
  if (result != CUDA_SUCCESS) stream = nullptr;
  if (!c.owner().handles(handle_kind::stream).place(q.stream, stream, {c.ticket().context, 0}))
    return c.malformed();
  return c.finish<msg::stream_create>(result, {});
}

outcome stream_destroy(call_context& c, const msg::stream_destroy::request& q) {
  auto& w = c.owner();
  const auto removed = w.handles(handle_kind::stream).remove(q.stream);
  if (!removed) return c.finish<msg::stream_destroy>(CUDA_ERROR_INVALID_HANDLE, {});
  const auto stream = static_cast<CUstream>(removed->native);
  w.credits.stream_gone({q.stream, 0, 0});
  w.captures.stream_gone(stream);
  if (c.called()) return c.finish<msg::stream_destroy>(c.driver().cuStreamDestroy_v2(stream), {});
  w.frees.post(c.ticket(),
               [&w, stream] { return static_cast<int>(w.driver().cuStreamDestroy_v2(stream)); });
  return c.finish<msg::stream_destroy>(CUDA_SUCCESS, {});
}

namespace {

// An event recorded in, or waited for by, all work of a context: the named one, or the command's own.
template <class Call>
outcome on_whole_context(call_context& c, std::uint64_t id, CUevent event,
                         CUresult(CUDAAPI* function)(CUcontext, CUevent)) {
  auto context = c.native<handle_kind::context>(id);
  if (id == 0) {
    if (const auto found = c.owner().handles(handle_kind::context).find_index(c.ticket().context))
      context = static_cast<CUcontext>(found->native);
  }
  if (c.failed()) return c.finish<Call>(c.failure(), {});
  if (function == nullptr) return c.finish<Call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const auto result = function(context, event);
  c.count_operation(stream_legacy, {nullptr, c.ticket().context});
  return c.finish<Call>(result, {});
}

}  // namespace

outcome stream_wait_event(call_context& c, const msg::stream_wait_event::request& q) {
  using call = msg::stream_wait_event;
  const auto& d = c.driver();
  const auto event = c.native<handle_kind::event>(q.event);
  if (q.whole_context) return on_whole_context<call>(c, q.context, event, d.cuCtxWaitEvent);
  const auto s = c.stream_of(q.stream);
  const auto result = c.failed() ? c.failure() : d.cuStreamWaitEvent(s.native, event, q.flags);
  c.count_operation(q.stream, s);
  return c.finish<call>(result, {});
}

outcome event_create(call_context& c, const msg::event_create::request& q) {
  CUevent event = nullptr;
  const auto result = c.driver().cuEventCreate(&event, q.flags);
  if (result != CUDA_SUCCESS) event = nullptr;
  if (!c.owner().handles(handle_kind::event).place(q.event, event, {c.ticket().context, 0}))
    return c.malformed();
  return c.finish<msg::event_create>(result, {});
}

outcome event_destroy(call_context& c, const msg::event_destroy::request& q) {
  auto& w = c.owner();
  const auto removed = w.handles(handle_kind::event).remove(q.event);
  if (!removed) return c.finish<msg::event_destroy>(CUDA_ERROR_INVALID_HANDLE, {});
  const auto event = static_cast<CUevent>(removed->native);
  if (c.called()) return c.finish<msg::event_destroy>(c.driver().cuEventDestroy_v2(event), {});
  w.frees.post(c.ticket(),
               [&w, event] { return static_cast<int>(w.driver().cuEventDestroy_v2(event)); });
  return c.finish<msg::event_destroy>(CUDA_SUCCESS, {});
}

outcome event_record(call_context& c, const msg::event_record::request& q) {
  using call = msg::event_record;
  const auto& d = c.driver();
  const auto event = c.native<handle_kind::event>(q.event);
  if (q.whole_context) return on_whole_context<call>(c, q.context, event, d.cuCtxRecordEvent);
  const auto s = c.stream_of(q.stream);
  auto result = c.failure();
  if (!c.failed()) {
    result = q.flags != 0 && d.cuEventRecordWithFlags
                 ? d.cuEventRecordWithFlags(event, s.native, q.flags)
             : q.flags != 0 ? CUDA_ERROR_NOT_SUPPORTED
                            : d.cuEventRecord(event, s.native);
  }
  c.count_operation(q.stream, s);
  return c.finish<call>(result, {});
}

}  // namespace gpuwire::daemon::custom
