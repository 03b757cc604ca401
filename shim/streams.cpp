// SPDX-License-Identifier: Apache-2.0
#include "shim/streams.hpp"

#include <algorithm>

#include "shim/attributes.hpp"
#include "shim/captures.hpp"
#include "shim/contexts.hpp"
#include "shim/devices.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"

namespace gpuwire::shim {
namespace {

stream_record* find_record(std::uint64_t id) {
  if (wire::handle_kind_of(id) != 3) return nullptr;
  stream_record* s = state().streams.find(wire::handle_index(id));
  return s != nullptr && s->id.load(std::memory_order_acquire) == id ? s : nullptr;
}

// Commands of a thread without a context count as well; they belong to no context's index.
stream_credit& legacy_credit(const thread_state& t) {
  context_record* c = t.current();
  return c != nullptr ? c->legacy : state().contexts.make(0)->legacy;
}

stream_credit* per_thread_credit(thread_state& t) {
  need_lane(t);
  auto& list = t.record->per_thread_streams;
  const auto context = t.context_index();
  for (const auto& [of, credit] : list)
    if (of == context) return credit.get();
  auto fresh = std::make_unique<stream_credit>();
  stream_credit* credit = fresh.get();
  std::lock_guard lock(t.record->mutex);
  list.emplace_back(context, std::move(fresh));
  return credit;
}

// The driver takes any priority and moves it into the range of the context. Zero, the default, is in every range.
CUresult clamp_priority(int& priority) {
  if (priority == 0) return CUDA_SUCCESS;
  msg::cuCtxGetStreamPriorityRange::request q;
  q.leastPriority_wanted = q.greatestPriority_wanted = true;
  const auto a = cached_call<msg::cuCtxGetStreamPriorityRange>(q);
  if (a.result == CUDA_SUCCESS)
    priority = std::clamp(priority, a.body.greatestPriority, a.body.leastPriority);
  return a.result;
}

CUresult create(CUstream* phStream, unsigned flags, int priority) {
  if (phStream == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = admit("cuStreamCreate", CUDA_ERROR_NOT_INITIALIZED); r != CUDA_SUCCESS)
    return r;
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (const CUresult r = clamp_priority(priority); r != CUDA_SUCCESS) return r;
  process_state& s = state();
  const auto id = s.stream_ids.mint();
  stream_record* record = id == 0 ? nullptr : s.streams.make(wire::handle_index(id));
  if (record == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  record->context = self().context_index();
  record->flags = flags;
  record->priority = priority;
  record->green = 0;
  record->credit.restart();

  msg::stream_create::request q;
  q.stream = id;
  q.flags = flags;
  q.priority = record->priority;
  if (const CUresult r = post<msg::stream_create>(q); r != CUDA_SUCCESS) {
    s.stream_ids.give_back(id);
    return r;
  }
  record->id.store(id, std::memory_order_release);
  *phStream = handle_from<CUstream>(id);
  return CUDA_SUCCESS;
}

}  // namespace

stream_target find_stream(CUstream stream) {
  stream_target target;
  target.id = stream_id(stream);
  thread_state& t = self();
  if (target.id > 2) {
    target.record = find_record(target.id);
    if (target.record == nullptr)
      target.result = CUDA_ERROR_INVALID_HANDLE;
    else
      target.credit = &target.record->credit;
    return target;
  }
  target.result = need_context();
  if (target.result != CUDA_SUCCESS) return target;
  target.credit = target.id == 2 ? per_thread_credit(t) : &legacy_credit(t);
  return target;
}

stream_credit* credit_of(std::uint64_t stream, std::uint32_t context, std::uint32_t lane) {
  process_state& s = state();
  if (stream > 2) {
    stream_record* record = s.streams.find(wire::handle_index(stream));
    if (record == nullptr || record->id.load(std::memory_order_acquire) != stream) return nullptr;
    return &record->credit;
  }
  if (stream < 2) {
    context_record* c = s.contexts.find(context);
    return c == nullptr ? nullptr : &c->legacy;
  }
  lane_record* l = s.lanes.find(lane);
  if (l == nullptr) return nullptr;
  std::lock_guard lock(l->mutex);
  for (const auto& [of, credit] : l->per_thread_streams)
    if (of == context) return credit.get();
  return nullptr;
}

void restart_default_stream_credits(context_record& context) {
  process_state& s = state();
  capture_is_over(context.legacy);
  context.legacy.restart();
  for (std::uint32_t lane = 1, end = s.lanes_minted.load(std::memory_order_relaxed); lane <= end;
       ++lane) {
    lane_record* l = s.lanes.find(lane);
    if (l == nullptr) continue;
    std::lock_guard lock(l->mutex);
    for (const auto& [of, credit] : l->per_thread_streams) {
      if (of != context.index) continue;
      capture_is_over(*credit);
      credit->restart();
    }
  }
}

void forget_streams_of(std::uint32_t context) {
  process_state& s = state();
  for (std::uint32_t i = 1, end = s.stream_ids.end(); i < end; ++i) {
    stream_record* record = s.streams.find(i);
    if (record == nullptr || record->context.load(std::memory_order_relaxed) != context) continue;
    if (const auto id = record->id.exchange(0, std::memory_order_acq_rel); id != 0) {
      capture_is_over(record->credit);
      s.stream_ids.give_back(id);
    }
  }
}

namespace custom {

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  return create(phStream, Flags, 0);
}
CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  return create(phStream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream hStream) {
  const auto id = id_of(hStream);
  stream_record* record = find_record(id);
  if (record == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  auto expected = id;
  if (!record->id.compare_exchange_strong(expected, 0)) return CUDA_ERROR_INVALID_HANDLE;
  msg::stream_destroy::request q;
  q.stream = id;
  const CUresult r = post<msg::stream_destroy>(q);
  capture_is_over(record->credit);
  state().stream_ids.give_back(id);
  return r;
}
CUresult cuStreamDestroy(CUstream hStream) {
  return custom::cuStreamDestroy_v2(hStream);
}

CUresult cuStreamSynchronize(CUstream hStream) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (known_idle(target.credit->idle_at)) return detail::earlier_error(self());
  msg::sync::request q;
  q.scope = 0;
  q.handle = target.id;
  const auto a = call<msg::sync>(q);
  note_idle(target.credit->idle_at, a);
  return a.result;
}

CUresult cuStreamQuery(CUstream hStream) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (known_idle(target.credit->idle_at)) return detail::earlier_error(self());
  msg::cuStreamQuery::request q;
  q.hStream = target.id;
  return call<msg::cuStreamQuery>(q).result;
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (streamId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::cuStreamGetId::request q;
  q.hStream = target.id;
  q.streamId_wanted = true;
  const auto a = call<msg::cuStreamGetId>(q);
  if (a.result == CUDA_SUCCESS) *streamId = a.body.streamId;
  return a.result;
}

CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = target.record != nullptr ? target.record->priority : 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = target.record != nullptr ? target.record->flags : 0;
  return CUDA_SUCCESS;
}

namespace {
context_record* context_of(const stream_target& target) {
  return target.record != nullptr ? state().contexts.find(target.record->context)
                                  : self().current();
}
}  // namespace

CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pctx = handle_of(*context_of(target));
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (pCtx == nullptr || pGreenCtx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pCtx = handle_of(*context_of(target));
  // The context is told where there is no green one, as the driver does.
  const std::uint64_t green = target.record != nullptr ? target.record->green : 0;
  *pGreenCtx = handle_from<CUgreenCtx>(green);
  if (green != 0) *pCtx = nullptr;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context_of(target)->device;
  return CUDA_SUCCESS;
}

// ---- attributes ----

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value_out) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (value_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::stream_attribute_get::request q;
  q.stream = target.id;
  q.attribute = static_cast<std::uint32_t>(attr);
  const auto a = call<msg::stream_attribute_get>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (a.body.value.size() != 1 || !decode_attribute(a.body.value.front(), *value_out))
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
                              const CUstreamAttrValue* value) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::stream_attribute_set::request q;
  q.stream = target.id;
  q.value.resize(1);
  attribute_values storage;
  if (!encode_attribute(attr, *value, q.value.front(), storage)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult r = call<msg::stream_attribute_set>(q).result;
  if (r == CUDA_SUCCESS && attr == CU_LAUNCH_ATTRIBUTE_PRIORITY && target.record != nullptr)
    target.record->priority = value->priority;
  return r;
}

}  // namespace custom
}  // namespace gpuwire::shim
