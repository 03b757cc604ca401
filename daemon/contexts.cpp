// SPDX-License-Identifier: Apache-2.0
#include "daemon/contexts.hpp"

#include "daemon/generated/custom.hpp"
#include "daemon/worker.hpp"

namespace gpuwire::daemon {
namespace {

struct thread_state {
  std::uint64_t epoch = 0;
  std::uint32_t index = 0;
  bool dead = false;
  bool relaxed = false;
};
thread_local thread_state current;

// The daemon's own housekeeping must never be what makes an application's stream capture fail.
// Possible once the driver is initialised.
void relax_capture_mode(const driver_table& d) {
  current.relaxed = set_capture_mode(d, CU_STREAM_CAPTURE_MODE_RELAXED);
}

}  // namespace

bool enter_context(worker& w, std::uint32_t index) {
  const auto epoch = w.context_epoch.load(std::memory_order_acquire);
  if (current.epoch == epoch && current.index == index) return !current.dead;
  const auto found = w.handles(handle_kind::context).find_index(index);
  auto* native = found ? static_cast<CUcontext>(found->native) : nullptr;
  const auto result = w.driver().cuCtxSetCurrent(native);
  current.epoch = epoch;
  current.index = index;
  current.dead = index != 0 && (native == nullptr || result != CUDA_SUCCESS);
  if (!current.relaxed) relax_capture_mode(w.driver());
  return !current.dead;
}

std::uint32_t current_context() {
  return current.index;
}

namespace custom {
namespace {

bool is_device(std::int32_t device) {
  return device >= 0 && primary_index(device) < limits::explicit_context_first;
}

// Released or reset, the primary context may have no owner left; then all that lived in it is gone.
void after_primary_change(call_context& c, int device, bool reset) {
  auto& w = c.owner();
  unsigned flags = 0;
  int active = 1;
  if (w.driver().cuDevicePrimaryCtxGetState != nullptr)
    w.driver().cuDevicePrimaryCtxGetState(device, &flags, &active);
  if (!reset && active != 0) return;
  w.context_gone(primary_index(device));
  if (active == 0) w.handles(handle_kind::context).place_at(primary_index(device), nullptr);
}

}  // namespace

outcome primary_context_retain(call_context& c, const msg::primary_context_retain::request& q) {
  using call = msg::primary_context_retain;
  CUcontext context = nullptr;
  const auto result = c.driver().cuDevicePrimaryCtxRetain(&context, q.device);
  if (result != CUDA_SUCCESS) return c.finish<call>(result, {});
  if (!is_device(q.device)) return c.finish<call>(CUDA_ERROR_INVALID_DEVICE, {});
  auto& contexts = c.owner().handles(handle_kind::context);
  const auto known = contexts.find_index(primary_index(q.device));
  call::reply r;
  if (known && known->native == context) {
    r.context = wire::make_handle(0, static_cast<std::uint8_t>(handle_kind::context), 1,
                                  primary_index(q.device));
  } else {
    r.context = contexts.place_at(primary_index(q.device), context);
    c.owner().context_epoch.fetch_add(1, std::memory_order_acq_rel);
  }
  return c.finish<call>(result, r);
}

outcome primary_context_release(call_context& c, const msg::primary_context_release::request& q) {
  const auto& d = c.driver();
  const auto release =
      d.cuDevicePrimaryCtxRelease_v2 ? d.cuDevicePrimaryCtxRelease_v2 : d.cuDevicePrimaryCtxRelease;
  if (release == nullptr)
    return c.finish<msg::primary_context_release>(CUDA_ERROR_NOT_SUPPORTED, {});
  if (is_device(q.device)) c.owner().settle_context(primary_index(q.device));
  const auto result = release(q.device);
  if (result == CUDA_SUCCESS && is_device(q.device)) after_primary_change(c, q.device, false);
  return c.finish<msg::primary_context_release>(result, {});
}

outcome primary_context_reset(call_context& c, const msg::primary_context_reset::request& q) {
  const auto& d = c.driver();
  const auto reset =
      d.cuDevicePrimaryCtxReset_v2 ? d.cuDevicePrimaryCtxReset_v2 : d.cuDevicePrimaryCtxReset;
  if (reset == nullptr) return c.finish<msg::primary_context_reset>(CUDA_ERROR_NOT_SUPPORTED, {});
  if (is_device(q.device)) c.owner().settle_context(primary_index(q.device));
  const auto result = reset(q.device);
  if (result == CUDA_SUCCESS && is_device(q.device)) after_primary_change(c, q.device, true);
  return c.finish<msg::primary_context_reset>(result, {});
}

outcome primary_context_set_flags(call_context& c,
                                  const msg::primary_context_set_flags::request& q) {
  const auto& d = c.driver();
  const auto set = d.cuDevicePrimaryCtxSetFlags_v2 ? d.cuDevicePrimaryCtxSetFlags_v2
                                                   : d.cuDevicePrimaryCtxSetFlags;
  if (set == nullptr) return c.finish<msg::primary_context_set_flags>(CUDA_ERROR_NOT_SUPPORTED, {});
  return c.finish<msg::primary_context_set_flags>(set(q.device, q.flags), {});
}

outcome primary_context_state(call_context& c, const msg::primary_context_state::request& q) {
  msg::primary_context_state::reply r;
  unsigned flags = 0;
  int active = 0;
  if (c.driver().cuDevicePrimaryCtxGetState == nullptr) {
    return c.finish<msg::primary_context_state>(CUDA_ERROR_NOT_SUPPORTED, {});
  }
  const auto result = c.driver().cuDevicePrimaryCtxGetState(q.device, &flags, &active);
  r.flags = flags;
  r.active = active != 0;
  return c.finish<msg::primary_context_state>(result, r);
}

outcome context_create(call_context& c, const msg::context_create::request& q) {
  using call = msg::context_create;
  const auto& d = c.driver();
  CUcontext context = nullptr;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  if (q.revision == 1 && d.cuCtxCreate)
    result = d.cuCtxCreate(&context, q.flags, q.device);
  else if (q.revision == 3 && d.cuCtxCreate_v3)
    result = d.cuCtxCreate_v3(&context, nullptr, 0, q.flags, q.device);
  else if (q.revision == 4 && d.cuCtxCreate_v4)
    result = d.cuCtxCreate_v4(&context, nullptr, q.flags, q.device);
  else if (d.cuCtxCreate_v2)
    result = d.cuCtxCreate_v2(&context, q.flags, q.device);
  if (result != CUDA_SUCCESS) return c.finish<call>(result, {});
  // The driver made it current in this thread; what is current is decided command by command.
  c.owner().context_epoch.fetch_add(1, std::memory_order_acq_rel);
  call::reply r;
  r.context = c.mint<handle_kind::context>(context);
  if (r.context == 0) {
    d.cuCtxDestroy_v2(context);
    return c.finish<call>(CUDA_ERROR_OUT_OF_MEMORY, {});
  }
  return c.finish<call>(CUDA_SUCCESS, r);
}

outcome context_destroy(call_context& c, const msg::context_destroy::request& q) {
  using call = msg::context_destroy;
  const auto context = c.native<handle_kind::context>(q.context);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  const auto index = wire::handle_index(q.context);
  // A primary context cannot be destroyed this way: the driver says so, and nothing of it goes.
  const bool own = context != nullptr && index >= limits::explicit_context_first;
  if (own) c.owner().settle_context(index);
  const auto result = c.driver().cuCtxDestroy_v2(context);
  if (result == CUDA_SUCCESS && own) {
    c.owner().context_gone(index);
    c.release<handle_kind::context>(q.context);
  }
  c.owner().context_epoch.fetch_add(1, std::memory_order_acq_rel);
  return c.finish<call>(result, {});
}

}  // namespace custom
}  // namespace gpuwire::daemon
