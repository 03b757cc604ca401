// SPDX-License-Identifier: Apache-2.0
// Device memory that no host memory takes part in: allocation, free, copies between device
// addresses, fills.
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"

namespace gpuwire::daemon::custom {
namespace {

CUresult allocate(const driver_table& d, const msg::memory_allocate::request& q,
                  CUdeviceptr& address, std::size_t& pitch) {
  if (!q.pitched) return d.cuMemAlloc_v2(&address, q.bytes);
  if (d.cuMemAllocPitch_v2 == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return d.cuMemAllocPitch_v2(&address, &pitch, q.bytes, q.height, q.element_bytes);
}

CUresult fill(const driver_table& d, const msg::memset::request& q, CUstream stream) {
  const auto at = q.destination;
  const auto byte = static_cast<unsigned char>(q.value);
  const auto half = static_cast<unsigned short>(q.value);
  if (q.two_dimensional) {
    switch (q.element_bytes) {
      case 1:
        return d.cuMemsetD2D8Async
                   ? d.cuMemsetD2D8Async(at, q.pitch, byte, q.width, q.height, stream)
                   : CUDA_ERROR_NOT_SUPPORTED;
      case 2:
        return d.cuMemsetD2D16Async
                   ? d.cuMemsetD2D16Async(at, q.pitch, half, q.width, q.height, stream)
                   : CUDA_ERROR_NOT_SUPPORTED;
      default:
        return d.cuMemsetD2D32Async
                   ? d.cuMemsetD2D32Async(at, q.pitch, q.value, q.width, q.height, stream)
                   : CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  switch (q.element_bytes) {
    case 1:
      return d.cuMemsetD8Async ? d.cuMemsetD8Async(at, byte, q.width, stream)
                               : CUDA_ERROR_NOT_SUPPORTED;
    case 2:
      return d.cuMemsetD16Async ? d.cuMemsetD16Async(at, half, q.width, stream)
                                : CUDA_ERROR_NOT_SUPPORTED;
    default:
      return d.cuMemsetD32Async ? d.cuMemsetD32Async(at, q.value, q.width, stream)
                                : CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

outcome memory_allocate(call_context& c, const msg::memory_allocate::request& q) {
  using call = msg::memory_allocate;
  CUdeviceptr address = 0;
  std::size_t pitch = 0;
  const auto result = allocate(c.driver(), q, address, pitch);
  // The client cannot mirror the first address; freeing it only now keeps the driver from choosing
  // it again.
  if (q.replaces != 0) c.driver().cuMemFree_v2(q.replaces);
  call::reply r;
  if (result == CUDA_SUCCESS) {
    r.address = address;
    r.pitch = pitch;
  }
  return c.finish<call>(result, r);
}

outcome memory_free(call_context& c, const msg::memory_free::request& q) {
  auto& w = c.owner();
  w.direct.forget(q.address);
  if (c.called()) return c.finish<msg::memory_free>(c.driver().cuMemFree_v2(q.address), {});
  w.frees.post(c.ticket(), [&w, address = q.address] {
    return static_cast<int>(w.driver().cuMemFree_v2(address));
  });
  return c.finish<msg::memory_free>(CUDA_SUCCESS, {});
}

// The synchronous forms do not wait for device-to-device work natively either, so both are the same
// here.
outcome copy_device(call_context& c, const msg::copy_device::request& q) {
  using call = msg::copy_device;
  const auto& d = c.driver();
  const auto s = c.stream_of(q.stream);
  auto result = c.failure();
  if (q.peer) {
    const auto to = c.native<handle_kind::context>(q.destination_context);
    const auto from = c.native<handle_kind::context>(q.source_context);
    result = c.failed() ? c.failure()
             : d.cuMemcpyPeerAsync == nullptr
                 ? CUDA_ERROR_NOT_SUPPORTED
                 : d.cuMemcpyPeerAsync(q.destination, to, q.source, from, q.bytes, s.native);
  } else if (!c.failed()) {
    result = d.cuMemcpyDtoDAsync_v2
                 ? d.cuMemcpyDtoDAsync_v2(q.destination, q.source, q.bytes, s.native)
                 : CUDA_ERROR_NOT_SUPPORTED;
  }
  c.count_operation(q.stream, s);
  return c.finish<call>(result, {});
}

outcome memset(call_context& c, const msg::memset::request& q) {
  if (q.element_bytes != 1 && q.element_bytes != 2 && q.element_bytes != 4) return c.malformed();
  const auto s = c.stream_of(q.stream);
  const auto result = c.failed() ? c.failure() : fill(c.driver(), q, s.native);
  c.count_operation(q.stream, s);
  return c.finish<msg::memset>(result, {});
}

}  // namespace gpuwire::daemon::custom
