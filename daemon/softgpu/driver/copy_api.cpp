// SPDX-License-Identifier: Apache-2.0
// One-dimensional copies.
#include "copy.hpp"
#include "guard.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

operand device_side(CUdeviceptr address) {
  return {address, side::device};
}
operand host_side(const void* pointer) {
  return {reinterpret_cast<std::uint64_t>(pointer), side::host};
}
operand any_side(CUdeviceptr address) {
  return {address, side::any};
}

CUresult blocking(const operand& to, const operand& from, std::size_t bytes) {
  return with_context([&](context& current) {
    return copy(current, default_stream(current), to, from, bytes, completion::blocking);
  });
}

CUresult asynchronous(const operand& to, const operand& from, std::size_t bytes, CUstream handle) {
  return initialised([&] {
    auto on = stream_of(handle);
    return copy(*on->in, on, to, from, bytes, completion::asynchronous);
  });
}

void check_peers(CUcontext to, CUcontext from) {
  require(context_of(to)->active() && context_of(from)->active(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return blocking(any_side(to), any_side(from), bytes);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return asynchronous(any_side(to), any_side(from), bytes, stream);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return blocking(device_side(to), host_side(from), bytes);
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return blocking(host_side(to), device_side(from), bytes);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return blocking(device_side(to), device_side(from), bytes);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return asynchronous(device_side(to), host_side(from), bytes, stream);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return asynchronous(host_side(to), device_side(from), bytes, stream);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return asynchronous(device_side(to), device_side(from), bytes, stream);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t bytes) {
  return with_context([&](context& current) {
    check_peers(to_context, from_context);
    return copy(current, default_stream(current), device_side(to), device_side(from), bytes,
                completion::blocking);
  });
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream handle) {
  return initialised([&] {
    auto on = stream_of(handle);
    check_peers(to_context, from_context);
    return copy(*on->in, on, device_side(to), device_side(from), bytes, completion::asynchronous);
  });
}
