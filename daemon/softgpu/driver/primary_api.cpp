// SPDX-License-Identifier: Apache-2.0
// cuDevicePrimaryCtx*: the context that all users of a device in the process share, counted.
#include "context.hpp"
#include "guard.hpp"

using namespace gpuwire::softgpu;

namespace {

constexpr unsigned api_version = 3020;

CUresult release(CUdevice dev) {
  return initialised([&] {
    auto& primary = *device_of(dev).primary;
    std::unique_lock lock(primary.state_mutex);
    require(primary.retain_count > 0, CUDA_ERROR_INVALID_CONTEXT);
    const bool last = --primary.retain_count == 0;
    lock.unlock();
    if (last && primary.active()) primary.deactivate();
    return CUDA_SUCCESS;
  });
}

CUresult reset(CUdevice dev) {
  return initialised([&] {
    auto& primary = *device_of(dev).primary;
    primary.deactivate();
    // The retain count stays, as the hardware's driver has it: each holder may still release once.
    return CUDA_SUCCESS;
  });
}

CUresult set_flags(CUdevice dev, unsigned flags) {
  return initialised([&] {
    auto& primary = *device_of(dev).primary;
    const unsigned scheduling = flags & CU_CTX_SCHED_MASK;
    require((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) == 0 &&
            (scheduling == 0 || scheduling == 1 || scheduling == 2 || scheduling == 4));
    primary.flags = flags;
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice dev) {
  return initialised([&] {
    auto& primary = *device_of(dev).primary;
    require(out != nullptr);
    std::lock_guard lock(primary.state_mutex);
    if (!primary.active()) primary.activate(primary.flags, api_version);
    ++primary.retain_count;
    *out = primary.handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  return release(dev);
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  return release(dev);
}
CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  return reset(dev);
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  return reset(dev);
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return set_flags(dev, flags);
}
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  return set_flags(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  return initialised([&] {
    auto& primary = *device_of(dev).primary;
    require(flags != nullptr && active != nullptr);
    *flags = primary.flags;
    *active = primary.active();
    return CUDA_SUCCESS;
  });
}
