// SPDX-License-Identifier: Apache-2.0
#include "shim/contexts.hpp"

#include "shim/context_storage.hpp"
#include "shim/devices.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/host_functions.hpp"
#include "shim/images.hpp"
#include "shim/memory.hpp"
#include "shim/streams.hpp"

namespace gpuwire::shim {

context_record* find_context(std::uint64_t id) {
  if (wire::handle_kind_of(id) != 1) return nullptr;
  context_record* c = state().contexts.find(wire::handle_index(id));
  return c != nullptr && c->id.load(std::memory_order_acquire) == id ? c : nullptr;
}

context_record* find_context(CUcontext context) {
  return find_context(id_of(context));
}

context_record* context_or_current(CUcontext context) {
  if (context != nullptr) return find_context(context);
  thread_state& t = self();
  return t.current_is_alive() ? t.current() : nullptr;
}

context_record* primary_context(CUdevice device) {
  const device_record* d = find_device(device);
  return d == nullptr ? nullptr
                      : state().contexts.find(static_cast<std::uint32_t>(d->server_ordinal + 1));
}

namespace {

void push(thread_state& t, context_record& c) {
  t.stack.push_back(&c);
  t.stack_ids.push_back(c.id.load(std::memory_order_acquire));
}

void pop(thread_state& t) {
  t.stack.pop_back();
  t.stack_ids.pop_back();
}

// What lived in a context is gone with it. The primary context's record stays, it may become active
// again.
void context_died(context_record& c, CUcontext handle) {
  if (context_storage* storage = c.storage.load(std::memory_order_acquire))
    storage->destroy_all(handle);
  forget_streams_of(c.index);
  forget_events_of(c.index);
  forget_memory_of(c.index);
  forget_host_functions_of(c.index);
  forget_modules_of(c.index);
  forget_all_cached();
  attribute_memory::forget_everywhere();
  c.sticky.store(0, std::memory_order_release);
  restart_default_stream_credits(c);
}

CUresult refresh_primary(context_record& c) {
  msg::primary_context_state::request q;
  q.device = device_ordinal(c.device);
  const auto a = transact<msg::primary_context_state>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS) return a.result;
  const bool was_active = c.active.exchange(a.body.active, std::memory_order_acq_rel);
  c.flags.store(static_cast<int>(a.body.flags), std::memory_order_release);
  if (was_active && !a.body.active) context_died(c, handle_of(c));
  return CUDA_SUCCESS;
}

struct creation {
  unsigned flags;
  unsigned revision;
};

CUresult create(CUcontext* pctx, creation how, CUdevice dev) {
  if (find_device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::context_create::request q;
  q.device = device_ordinal(dev);
  q.flags = how.flags;
  q.revision = how.revision;
  const auto a = transact<msg::context_create>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS) return a.result;
  context_record* c = learn_context(a.body.context, dev);
  if (c == nullptr) return CUDA_ERROR_UNKNOWN;
  push(self(), *c);
  *pctx = handle_from<CUcontext>(a.body.context);
  return CUDA_SUCCESS;
}

CUresult destroy(CUcontext ctx) {
  if (ctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  context_record* c = find_context(ctx);
  if (c == nullptr || c->primary) return CUDA_ERROR_INVALID_CONTEXT;
  msg::context_destroy::request q;
  q.context = id_of(ctx);
  const auto a = transact<msg::context_destroy>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS) return a.result;
  forget_context(*c);
  return CUDA_SUCCESS;
}

}  // namespace

context_record* learn_context(std::uint64_t id, CUdevice device) {
  if (wire::handle_kind_of(id) != 1) return nullptr;
  context_record* c = state().contexts.make(wire::handle_index(id));
  if (c == nullptr) return nullptr;
  c->index = wire::handle_index(id);
  c->device = device;
  c->primary = false;
  c->attached.store(0, std::memory_order_relaxed);
  c->sticky.store(0, std::memory_order_relaxed);
  c->id.store(id, std::memory_order_release);
  return c;
}

void forget_context(context_record& context) {
  thread_state& t = self();
  if (t.current() == &context) pop(t);
  const auto id = context.id.exchange(0, std::memory_order_acq_rel);
  context_died(context, handle_from<CUcontext>(id));
}

namespace custom {

// ---- primary contexts ----

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  context_record* c = primary_context(dev);
  if (c == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(c->primary_mutex);
  msg::primary_context_retain::request q;
  q.device = device_ordinal(dev);
  const auto a = transact<msg::primary_context_retain>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS) return a.result;
  c->active.store(true, std::memory_order_release);
  *pctx = handle_of(*c);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  context_record* c = primary_context(dev);
  if (c == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(c->primary_mutex);
  msg::primary_context_release::request q;
  q.device = device_ordinal(dev);
  const auto a = transact<msg::primary_context_release>(q, {}, errors_first::no);
  return a.result != CUDA_SUCCESS ? a.result : refresh_primary(*c);
}
CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  context_record* c = primary_context(dev);
  if (c == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(c->primary_mutex);
  msg::primary_context_reset::request q;
  q.device = device_ordinal(dev);
  const auto a = transact<msg::primary_context_reset>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (c->active.exchange(false, std::memory_order_acq_rel)) context_died(*c, handle_of(*c));
  return refresh_primary(*c);
}
CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  context_record* c = primary_context(dev);
  if (c == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(c->primary_mutex);
  msg::primary_context_set_flags::request q;
  q.device = device_ordinal(dev);
  q.flags = flags;
  const auto a = transact<msg::primary_context_set_flags>(q, {}, errors_first::no);
  return a.result != CUDA_SUCCESS ? a.result : refresh_primary(*c);
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  context_record* c = primary_context(dev);
  if (c == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (c->flags.load(std::memory_order_acquire) < 0) {
    std::lock_guard lock(c->primary_mutex);
    if (const CUresult r = refresh_primary(*c); r != CUDA_SUCCESS) return r;
  }
  *flags = static_cast<unsigned>(c->flags.load(std::memory_order_acquire));
  *active = c->active.load(std::memory_order_acquire) ? 1 : 0;
  return CUDA_SUCCESS;
}

// ---- explicit contexts ----

CUresult cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(pctx, {flags, 1}, dev);
}
CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(pctx, {flags, 2}, dev);
}

CUresult cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                        unsigned int flags, CUdevice dev) {
  if (find_device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (paramsArray != nullptr || numParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(pctx, {flags, 3}, dev);
}

CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags,
                        CUdevice dev) {
  if (find_device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (ctxCreateParams != nullptr) {
    if (ctxCreateParams->numExecAffinityParams != 0 ||
        ctxCreateParams->execAffinityParams != nullptr)
      return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (ctxCreateParams->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return create(pctx, {flags, 4}, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
  return destroy(ctx);
}
CUresult cuCtxDestroy(CUcontext ctx) {
  return destroy(ctx);
}

CUresult cuCtxAttach(CUcontext* pctx, unsigned int flags) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (pctx == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  context_record* c = self().current();
  c->attached.fetch_add(1, std::memory_order_relaxed);
  *pctx = handle_of(*c);
  return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx) {
  context_record* c = find_context(ctx);
  if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  int attached = c->attached.load(std::memory_order_relaxed);
  while (attached > 0)
    if (c->attached.compare_exchange_weak(attached, attached - 1)) return CUDA_SUCCESS;
  return destroy(ctx);
}

// ---- the thread's stack ----

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
  if (ctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  context_record* c = find_context(ctx);
  if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  push(self(), *c);
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext ctx) {
  return custom::cuCtxPushCurrent_v2(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
  thread_state& t = self();
  if (t.stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (pctx != nullptr) *pctx = handle_from<CUcontext>(t.stack_ids.back());
  pop(t);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* pctx) {
  return custom::cuCtxPopCurrent_v2(pctx);
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
  thread_state& t = self();
  if (ctx == nullptr) {
    if (!t.stack.empty()) pop(t);
    return CUDA_SUCCESS;
  }
  context_record* c = find_context(ctx);
  if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!t.stack.empty()) pop(t);
  push(t, *c);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* pctx) {
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const thread_state& t = self();
  *pctx = t.stack.empty() ? nullptr : handle_from<CUcontext>(t.stack_ids.back());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = self().current()->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  if (ctx == nullptr) return cuCtxGetDevice(device);
  const context_record* c = find_context(ctx);
  if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = c->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
  if (ctx == nullptr)
    if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  context_record* c = ctx == nullptr ? self().current() : find_context(ctx);
  if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (known_idle(c->idle_at)) return detail::earlier_error(self());
  msg::sync::request q;
  q.scope = 1;
  q.handle = id_of(ctx);
  const auto a = call<msg::sync>(q);
  note_idle(c->idle_at, a);
  return a.result;
}
CUresult cuCtxSynchronize() {
  return cuCtxSynchronize_v2(nullptr);
}

}  // namespace custom
}  // namespace gpuwire::shim
