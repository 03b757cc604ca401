// SPDX-License-Identifier: Apache-2.0
// cuStream*: life, order and properties of streams. Stream capture is not implemented: no stream is
// ever capturing.
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

CUresult capture_status(CUstream handle, CUstreamCaptureStatus* status) {
  return initialised([&] {
    any_stream_of(handle);
    require(status != nullptr);
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  });
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
    const bool idle = scheduler::instance().idle(which);
    if (which->in->error() != CUDA_SUCCESS) return which->in->error();
    return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return initialised([&] {
    auto which = any_stream_of(handle);
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
    // An external wait has a meaning in captures only.
    require((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) == 0);
    scheduler::instance().wait_event(which, *mark);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  return property<unsigned>(handle, flags, [](const stream& which) { return which.flags; });
}
CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return property<int>(handle, priority, [](const stream& which) { return which.priority; });
}
CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  return property<CUcontext>(handle, out, [](const stream& which) { return which.in->handle; });
}
CUresult cuStreamGetDevice(CUstream handle, CUdevice* out) {
  return property<CUdevice>(handle, out, [](const stream& which) { return which.in->on.ordinal; });
}
CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return property<unsigned long long>(
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

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return capture_status(handle, status);
}

// The further results of these are defined only for a stream that captures.
CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t*) {
  return capture_status(handle, status);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t*,
                                   CUgraph*, const CUgraphNode**, size_t*) {
  return capture_status(handle, status);
}
CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t*,
                                   CUgraph*, const CUgraphNode**, const CUgraphEdgeData**,
                                   size_t*) {
  return capture_status(handle, status);
}

// The mode matters to captures only, but it is the thread's and is given back as it was set.
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return initialised([&] {
    thread_local CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_GLOBAL;
    require(mode != nullptr && *mode >= CU_STREAM_CAPTURE_MODE_GLOBAL &&
            *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    std::swap(own, *mode);
    return CUDA_SUCCESS;
  });
}
