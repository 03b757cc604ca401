// SPDX-License-Identifier: Apache-2.0
// cuStream*: life, order and properties of streams.
#include "capture.hpp"
#include "guard.hpp"
#include "pool.hpp"
#include "scheduler.hpp"
#include "tables.hpp"

#include <algorithm>

using namespace gpuwire::softgpu;

namespace {

constexpr int priority_greatest = -5;

CUresult create(CUstream* out, unsigned flags, int priority) {
  return with_context([&](context& current) {
    require(out != nullptr && (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) == 0);
    auto made = std::make_shared<stream>();
    made->owner = current.shared_from_this();
    made->in = &current;
    made->handle = streams_table().mint();
    made->flags = flags;
    made->priority = std::clamp(priority, priority_greatest, 0);
    made->id = next_unique_id();
    made->blocking = flags == CU_STREAM_DEFAULT;
    scheduler::instance().add_stream(current, made);
    streams_table().insert(made->handle, made);
    *out = made->handle;
    return CUDA_SUCCESS;
  });
}

CUresult destroy(CUstream handle) {
  return initialised([&] {
    auto gone = streams_table().remove(handle);
    require(gone != nullptr, CUDA_ERROR_INVALID_HANDLE);
    leave_capture(*gone);
    scheduler::instance().destroy_stream(gone);
    return CUDA_SUCCESS;
  });
}

template <typename Value>
CUresult property(CUstream handle, Value* out, Value (*read)(const stream&)) {
  return initialised([&] {
    auto which = any_stream_of(handle);
    require(out != nullptr);
    *out = read(*which);
    return CUDA_SUCCESS;
  });
}

// Odd, but so natively: these cannot be asked for while the stream captures.
template <typename Value>
CUresult property_out_of_capture(CUstream handle, Value* out, Value (*read)(const stream&)) {
  const CUresult allowed = initialised([&] {
    auto which = any_stream_of(handle);
    if (is_capturing(*which)) check_call_on(*which);
    return CUDA_SUCCESS;
  });
  return allowed == CUDA_SUCCESS ? property(handle, out, read) : allowed;
}

}  // namespace

CUresult cuStreamCreate(CUstream* out, unsigned int flags) {
  return create(out, flags, 0);
}
CUresult cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  return create(out, flags, priority);
}
CUresult cuStreamDestroy(CUstream handle) {
  return destroy(handle);
}
CUresult cuStreamDestroy_v2(CUstream handle) {
  return destroy(handle);
}

CUresult cuStreamQuery(CUstream handle) {
  return initialised([&] {
    auto which = stream_of(handle);
    check_call_on(*which);
    check_unsafe_call();
    const bool idle = scheduler::instance().idle(which);
    if (which->in->error() != CUDA_SUCCESS) return which->in->error();
    return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return initialised([&] {
    auto which = any_stream_of(handle);
    check_call_on(*which);
    check_unsafe_call();
    scheduler::instance().synchronise(which);
    which->in->flush_print();
    trim_pools_after_wait();
    return which->in->error();
  });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent hEvent, unsigned int flags) {
  return initialised([&] {
    auto which = stream_of(handle);
    auto mark = event_of(hEvent);
    require((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) == 0);
    if (which->legacy) check_legacy_use(*which->in);
    // An external wait has a meaning in captures only.
    if (flags == CU_EVENT_WAIT_EXTERNAL && is_capturing(*which)) {
      capture_node(which, event_wait_payload{mark});
    } else {
      wait_for_event(which, *mark);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  return property_out_of_capture<unsigned>(handle, flags,
                                           [](const stream& which) { return which.flags; });
}
CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return property<int>(handle, priority, [](const stream& which) { return which.priority; });
}
CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  return property<CUcontext>(handle, out, [](const stream& which) { return which.in->handle; });
}
CUresult cuStreamGetDevice(CUstream handle, CUdevice* out) {
  return property_out_of_capture<CUdevice>(
      handle, out, [](const stream& which) { return which.in->on.ordinal; });
}
CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return property_out_of_capture<unsigned long long>(
      handle, id, [](const stream& which) { return static_cast<unsigned long long>(which.id); });
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* out, CUgreenCtx* green) {
  return initialised([&] {
    auto which = any_stream_of(handle);
    require(out != nullptr && green != nullptr);
    *out = which->in->handle;
    *green = nullptr;
    return CUDA_SUCCESS;
  });
}
