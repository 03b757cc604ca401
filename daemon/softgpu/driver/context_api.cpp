// SPDX-License-Identifier: Apache-2.0
// cuCtx*: creation, the thread's stack of contexts, properties.
#include <algorithm>

#include "capture.hpp"
#include "context.hpp"
#include "guard.hpp"
#include "pool.hpp"
#include "scheduler.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

constexpr unsigned api_version_old = 3010;
constexpr unsigned api_version_now = 3020;
constexpr std::size_t limit_bytes_max = 1ull << 40;

CUresult create(CUcontext* out, unsigned flags, CUdevice dev, unsigned version) {
  return initialised([&] {
    auto& on = device_of(dev);
    require(out != nullptr && (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) == 0);
    const unsigned scheduling = flags & CU_CTX_SCHED_MASK;
    require(scheduling == 0 || scheduling == 1 || scheduling == 2 || scheduling == 4);
    require((flags & (CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE)) == 0,
            CUDA_ERROR_NOT_SUPPORTED);
    auto made = context::make(on, false);
    made->activate(flags, version);
    context_stack().push_back(made);
    *out = made->handle;
    return CUDA_SUCCESS;
  });
}

CUresult destroy(CUcontext handle) {
  return initialised([&] {
    auto victim = context_of(
        handle, handle == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED);
    require(!victim->primary, CUDA_ERROR_INVALID_CONTEXT);
    require(contexts().remove(handle) != nullptr, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == victim) stack.pop_back();
    victim->deactivate();
    return CUDA_SUCCESS;
  });
}

CUresult pop(CUcontext* out) {
  return initialised([&] {
    auto& stack = context_stack();
    require(!stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
    if (out != nullptr) *out = stack.back() ? stack.back()->handle : nullptr;
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult push(CUcontext handle) {
  return initialised([&] {
    require(handle != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    context_stack().push_back(context_of(handle));
    return CUDA_SUCCESS;
  });
}

CUresult synchronise(context& which) {
  check_call_on(which);
  check_unsafe_call();
  scheduler::instance().synchronise(which);
  which.flush_print();
  trim_pools_after_wait();
  return which.error();
}

}  // namespace

CUresult cuCtxCreate(CUcontext* out, unsigned int flags, CUdevice dev) {
  return create(out, flags, dev, api_version_old);
}
CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice dev) {
  return create(out, flags, dev, api_version_now);
}

CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int count, unsigned int flags,
                        CUdevice dev) {
  if (count != 0) {
    return initialised([&] {
      device_of(dev);
      return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    });
  }
  return create(out, flags, dev, api_version_now);
}

CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters, unsigned int flags,
                        CUdevice dev) {
  if (parameters != nullptr &&
      (parameters->numExecAffinityParams != 0 || parameters->cigParams != nullptr)) {
    return initialised([&] {
      device_of(dev);
      return parameters->cigParams != nullptr ? CUDA_ERROR_NOT_SUPPORTED
                                              : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    });
  }
  return create(out, flags, dev, api_version_now);
}

CUresult cuCtxDestroy(CUcontext ctx) {
  return destroy(ctx);
}
CUresult cuCtxDestroy_v2(CUcontext ctx) {
  return destroy(ctx);
}
CUresult cuCtxPushCurrent(CUcontext ctx) {
  return push(ctx);
}
CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
  return push(ctx);
}
CUresult cuCtxPopCurrent(CUcontext* out) {
  return pop(out);
}
CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  return pop(out);
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  return initialised([&] {
    auto& stack = context_stack();
    if (handle == nullptr) {
      if (!stack.empty()) stack.pop_back();
      return CUDA_SUCCESS;
    }
    auto wanted = context_of(handle);
    if (stack.empty()) {
      stack.push_back(std::move(wanted));
    } else {
      stack.back() = std::move(wanted);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  return initialised([&] {
    require(out != nullptr);
    auto& stack = context_stack();
    *out = stack.empty() || !stack.back() ? nullptr : stack.back()->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* out) {
  return initialised([&] {
    auto& stack = context_stack();
    require(!stack.empty() && stack.back(), CUDA_ERROR_INVALID_CONTEXT);
    require(out != nullptr);
    *out = stack.back()->on.ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice_v2(CUdevice* out, CUcontext handle) {
  if (handle == nullptr) return cuCtxGetDevice(out);
  return initialised([&] {
    auto which = context_of(handle, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    require(out != nullptr);
    *out = which->on.ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  return initialised([&] {
    auto current = live_context();
    require(flags != nullptr);
    *flags = current->flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetFlags(unsigned int flags) {
  return initialised([&] {
    auto current = live_context();
    // Only the synchronise-memory-operations flag can be changed, as the manual says.
    require((flags & ~static_cast<unsigned>(CU_CTX_SYNC_MEMOPS)) == 0);
    current->flags = (current->flags & ~static_cast<unsigned>(CU_CTX_SYNC_MEMOPS)) | flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  return initialised([&] {
    auto which = context_or_current(handle);
    require(id != nullptr);
    *id = which->unique_id;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  return initialised([&] {
    auto which = handle == nullptr ? live_context() : context_of(handle);
    require(version != nullptr);
    *version = which->api_version;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize() {
  return initialised([&] { return synchronise(*live_context()); });
}

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  return initialised([&] { return synchronise(*context_or_current(handle)); });
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  return with_context([&](context& current) {
    check_unsafe_call();
    switch (limit) {
      case CU_LIMIT_STACK_SIZE:
      case CU_LIMIT_PRINTF_FIFO_SIZE:
        break;
      case CU_LIMIT_MALLOC_HEAP_SIZE:
        require(!current.heap_made());
        break;
      default:
        return limit < CU_LIMIT_MAX ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
    }
    require(value > 0 && value <= limit_bytes_max);
    std::lock_guard lock(current.state_mutex);
    current.limits[limit] = value;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  return with_context([&](context& current) {
    require(value != nullptr);
    std::lock_guard lock(current.state_mutex);
    auto found = current.limits.find(limit);
    if (found == current.limits.end()) {
      return limit < CU_LIMIT_MAX ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
    }
    *value = found->second;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  return with_context([&](context& current) {
    require(config != nullptr);
    *config = current.cache_config;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  return with_context([&](context& current) {
    require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
    check_unsafe_call();
    current.cache_config = config;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  return with_context([&](context&) {
    require(config != nullptr);
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
  });
}

// The bank size is fixed since compute capability 5.0: the call succeeds and changes nothing, as
// natively.
CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  return with_context([&](context&) {
    require(config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
            config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return with_context([&](context&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxResetPersistingL2Cache() {
  return with_context([&](context&) { return CUDA_ERROR_NOT_SUPPORTED; });
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam*, CUexecAffinityType) {
  return with_context([&](context&) { return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY; });
}

CUresult cuCtxRecordEvent(CUcontext handle, CUevent hEvent) {
  return initialised([&] {
    auto which = context_or_current(handle);
    require(which->error() == CUDA_SUCCESS, which->error());
    auto mark = event_of(hEvent);
    require(mark->owner == which, CUDA_ERROR_INVALID_HANDLE);
    check_call_on(*which);
    scheduler::instance().record_context(*which, *mark);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxWaitEvent(CUcontext handle, CUevent hEvent) {
  return initialised([&] {
    auto which = context_or_current(handle);
    require(which->error() == CUDA_SUCCESS, which->error());
    auto mark = event_of(hEvent);
    check_call_on(*which);
    check_event_not_captured(*mark, true);
    scheduler::instance().wait_event_context(*which, *mark);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  return with_context([&](context& current) {
    auto other = context_of(peer);
    require(flags == 0 && other->active());
    require(&other->on != &current.on, CUDA_ERROR_INVALID_DEVICE);
    require(!current.memory.has_peer(other->id), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    require(current.memory.add_peer(other->id), CUDA_ERROR_TOO_MANY_PEERS);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return with_context([&](context& current) {
    auto other = context_of(peer);
    require(current.memory.remove_peer(other->id), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    return CUDA_SUCCESS;
  });
}
