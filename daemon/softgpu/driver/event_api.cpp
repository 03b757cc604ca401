// SPDX-License-Identifier: Apache-2.0
// cuEvent*.
#include "capture.hpp"
#include "guard.hpp"
#include "pool.hpp"
#include "scheduler.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

CUresult record(CUevent handle, CUstream hStream, unsigned flags) {
  return initialised([&] {
    auto on = stream_of(hStream);
    auto mark = event_of(handle);
    require((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) == 0);
    require(mark->owner.get() == on->in, CUDA_ERROR_INVALID_HANDLE);
    // An external record has a meaning in captures only, and is refused elsewhere, as natively.
    if (flags == CU_EVENT_RECORD_EXTERNAL) {
      require(is_capturing(*on), CUDA_ERROR_ILLEGAL_STATE);
      capture_node(on, event_record_payload{mark});
    } else {
      record_event(on, *mark);
    }
    return CUDA_SUCCESS;
  });
}

CUresult destroy(CUevent handle) {
  return initialised([&] {
    require(events().remove(handle) != nullptr, CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
  });
}

CUresult elapsed(float* milliseconds, CUevent begin_handle, CUevent end_handle) {
  return initialised([&] {
    auto begin = event_of(begin_handle);
    auto end = event_of(end_handle);
    require(milliseconds != nullptr, CUDA_ERROR_INVALID_HANDLE);  // as the hardware's driver says
    check_event_not_captured(*begin, false);
    check_event_not_captured(*end, false);
    auto& plan = scheduler::instance();
    const auto first = plan.latest(*begin);
    const auto last = plan.latest(*end);
    require(first && last && ((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING) == 0,
            CUDA_ERROR_INVALID_HANDLE);
    if (!plan.done(*first) || !plan.done(*last)) return CUDA_ERROR_NOT_READY;
    const auto difference_ns =
        static_cast<std::int64_t>(last->time_ns) - static_cast<std::int64_t>(first->time_ns);
    *milliseconds = static_cast<float>(static_cast<double>(difference_ns) / 1e6);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  return with_context([&](context& current) {
    constexpr unsigned known =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    require(out != nullptr && (flags & ~known) == 0);
    require((flags & CU_EVENT_INTERPROCESS) == 0, CUDA_ERROR_NOT_SUPPORTED);
    auto made = std::make_shared<event>();
    made->owner = current.shared_from_this();
    made->handle = events().mint();
    made->flags = flags;
    events().insert(made->handle, made);
    *out = made->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
  return record(handle, stream, CU_EVENT_RECORD_DEFAULT);
}
CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned int flags) {
  return record(handle, stream, flags);
}

CUresult cuEventQuery(CUevent handle) {
  return initialised([&] {
    auto mark = event_of(handle);
    check_event_not_captured(*mark, true);
    check_unsafe_call();
    auto& plan = scheduler::instance();
    const auto latest = plan.latest(*mark);
    const bool done = !latest || plan.done(*latest);
    if (mark->owner->error() != CUDA_SUCCESS) return mark->owner->error();
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return initialised([&] {
    auto mark = event_of(handle);
    check_event_not_captured(*mark, true);
    check_unsafe_call();
    auto& plan = scheduler::instance();
    if (const auto latest = plan.latest(*mark)) plan.wait(*latest);
    mark->owner->flush_print();
    trim_pools_after_wait();
    return mark->owner->error();
  });
}

CUresult cuEventDestroy(CUevent handle) {
  return destroy(handle);
}
CUresult cuEventDestroy_v2(CUevent handle) {
  return destroy(handle);
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  return elapsed(milliseconds, begin, end);
}
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent begin, CUevent end) {
  return elapsed(milliseconds, begin, end);
}
