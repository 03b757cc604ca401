// SPDX-License-Identifier: Apache-2.0
#include "shim/contexts.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/streams.hpp"

namespace gpuwire::shim {

event_record* find_event(CUevent event) {
  const auto id = id_of(event);
  if (wire::handle_kind_of(id) != 4) return nullptr;
  event_record* e = state().events.find(wire::handle_index(id));
  return e != nullptr && e->id.load(std::memory_order_acquire) == id ? e : nullptr;
}

void forget_events_of(std::uint32_t context) {
  process_state& s = state();
  for (std::uint32_t i = 1, end = s.event_ids.end(); i < end; ++i) {
    event_record* record = s.events.find(i);
    if (record == nullptr || record->context.load(std::memory_order_relaxed) != context) continue;
    if (const auto id = record->id.exchange(0, std::memory_order_acq_rel); id != 0)
      s.event_ids.give_back(id);
  }
}

namespace {

constexpr unsigned event_flags =
    CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

// Without a context the driver says so before it looks at the handle.
CUresult check(CUevent event) {
  if (find_event(event) != nullptr) return CUDA_SUCCESS;
  const CUresult r = need_context();
  return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_HANDLE;
}

CUresult record(CUevent event, CUstream stream, unsigned flags) {
  if (find_event(event) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto target = find_stream(stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  msg::event_record::request q;
  q.event = id_of(event);
  q.stream = target.id;
  q.flags = flags;
  return post_operation<msg::event_record>(*target.credit, 0, q);
}

// Null means the current context.
CUresult check_context(CUcontext context) {
  if (context == nullptr) return need_context();
  return find_context(context) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

// The daemon counts what belongs to a whole context as an operation of the current context's legacy
// stream.
stream_credit& credit_for_context() {
  context_record* current = self().current();
  return current != nullptr ? current->legacy : state().contexts.make(0)->legacy;
}

}  // namespace

namespace custom {

CUresult cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (phEvent == nullptr || (Flags & ~event_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & CU_EVENT_INTERPROCESS) != 0 && (Flags & CU_EVENT_DISABLE_TIMING) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  process_state& s = state();
  const auto id = s.event_ids.mint();
  event_record* record = id == 0 ? nullptr : s.events.make(wire::handle_index(id));
  if (record == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  record->context = self().context_index();
  record->flags = Flags;
  msg::event_create::request q;
  q.event = id;
  q.flags = Flags;
  if (const CUresult r = post<msg::event_create>(q); r != CUDA_SUCCESS) {
    s.event_ids.give_back(id);
    return r;
  }
  record->id.store(id, std::memory_order_release);
  *phEvent = handle_from<CUevent>(id);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent hEvent) {
  if (const CUresult r = check(hEvent); r != CUDA_SUCCESS) return r;
  const auto id = id_of(hEvent);
  auto expected = id;
  if (!find_event(hEvent)->id.compare_exchange_strong(expected, 0))
    return CUDA_ERROR_INVALID_HANDLE;
  msg::event_destroy::request q;
  q.event = id;
  const CUresult r = post<msg::event_destroy>(q);
  state().event_ids.give_back(id);
  return r;
}
CUresult cuEventDestroy(CUevent hEvent) {
  return custom::cuEventDestroy_v2(hEvent);
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream) {
  return record(hEvent, hStream, 0);
}
CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  return record(hEvent, hStream, flags);
}

CUresult cuEventQuery(CUevent hEvent) {
  if (const CUresult r = check(hEvent); r != CUDA_SUCCESS) return r;
  msg::cuEventQuery::request q;
  q.hEvent = id_of(hEvent);
  return call<msg::cuEventQuery>(q).result;
}

CUresult cuEventSynchronize(CUevent hEvent) {
  if (const CUresult r = check(hEvent); r != CUDA_SUCCESS) return r;
  msg::sync::request q;
  q.scope = 2;
  q.handle = id_of(hEvent);
  return call<msg::sync>(q).result;
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (find_event(hEvent) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((Flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  msg::stream_wait_event::request q;
  q.stream = target.id;
  q.event = id_of(hEvent);
  q.flags = Flags;
  return post_operation<msg::stream_wait_event>(*target.credit, 0, q);
}

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  if (const CUresult r = check_context(hCtx); r != CUDA_SUCCESS) return r;
  if (find_event(hEvent) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  msg::event_record::request q;
  q.event = id_of(hEvent);
  q.whole_context = true;
  q.context = id_of(hCtx);
  return post_operation<msg::event_record>(credit_for_context(), 0, q);
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  if (const CUresult r = check_context(hCtx); r != CUDA_SUCCESS) return r;
  if (find_event(hEvent) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  msg::stream_wait_event::request q;
  q.event = id_of(hEvent);
  q.whole_context = true;
  q.context = id_of(hCtx);
  return post_operation<msg::stream_wait_event>(credit_for_context(), 0, q);
}

}  // namespace custom
}  // namespace gpuwire::shim
