// SPDX-License-Identifier: Apache-2.0
// Copies and memsets of one dimension. What fits in a command and whose device range is known is
// posted; what is larger goes beside the command on the bulk connections and returns when the
// server has it. Reading back always waits.
#include <cstring>

#include "shim/captures.hpp"
#include "shim/contexts.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/graph_memory.hpp"
#include "shim/log.hpp"
#include "shim/memory.hpp"
#include "shim/pinned.hpp"
#include "wire/limits.hpp"

namespace gpuwire::shim {
namespace {

enum class mode { synchronous, in_stream };

// The stream of an asynchronous call, or the default stream of a synchronous one (the per-thread
// one in ptds entries).
stream_target target_of(CUstream stream, mode m) {
  return find_stream(m == mode::synchronous ? nullptr : stream);
}

CUdeviceptr address_of(const void* host_side) {
  return reinterpret_cast<CUdeviceptr>(host_side);
}

CUresult refuse_freed_memory() {
  const CUresult r = detail::earlier_error(self());
  log_debug("memory that was freed is named");
  return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
}

bool is_shared(CUdeviceptr address) {
  const auto range = state().memory.find(address);
  return range && is_shared_memory(*range);
}

// A synchronous call wrote there: the program may look at once, if it can.
bool must_arrive(CUdeviceptr destination, mode m) {
  return m == mode::synchronous && is_shared(destination);
}

struct device_copy {
  CUdeviceptr destination = 0, source = 0;
  std::uint64_t destination_context = 0, source_context = 0;
  std::size_t bytes = 0;
  bool peer = false;
};

CUresult on_device(const device_copy& copy, const stream_target& target, mode m) {
  if (copy.bytes == 0) return CUDA_SUCCESS;
  msg::copy_device::request q;
  q.destination = copy.destination;
  q.destination_context = copy.destination_context;
  q.source = copy.source;
  q.source_context = copy.source_context;
  q.bytes = copy.bytes;
  q.stream = target.id;
  q.peer = copy.peer;
  q.synchronous = m == mode::synchronous;
  const bool known = is_known_device_range(copy.destination, copy.bytes) &&
                     is_known_device_range(copy.source, copy.bytes);
  if (known && !copy.peer) {
    const CUresult r = post_operation<msg::copy_device>(*target.credit, 0, q);
    return r == CUDA_SUCCESS && must_arrive(copy.destination, m) ? wait_for_stream(target) : r;
  }
  if (!known && (is_freed_device_memory(copy.destination) || is_freed_device_memory(copy.source)))
    return refuse_freed_memory();
  return call_operation<msg::copy_device>(*target.credit, 0, q).result;
}

device_copy between(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes) {
  device_copy copy;
  copy.destination = destination;
  copy.source = source;
  copy.bytes = bytes;
  return copy;
}

// The driver goes by where an address lies, not by the direction in the function's name: pinned
// memory may stand where a device address is meant, and the other way round.
enum class place { unknown, gpu, host };

place place_of(CUdeviceptr address) {
  const auto range = state().memory.find(address);
  if (!range) return is_reserved_device_address(address) ? place::gpu : place::unknown;
  return is_on_server(*range) ? place::gpu : place::host;
}

CUresult on_host(void* destination, const void* source, std::size_t bytes,
                 const stream_target& target);

CUresult to_device(CUdeviceptr destination, const void* source, std::size_t bytes,
                   const stream_target& target, mode m) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (source == nullptr || destination == 0) return CUDA_ERROR_INVALID_VALUE;
  if (place_of(address_of(source)) == place::gpu)
    return on_device(between(destination, address_of(source), bytes), target, m);
  if (must_arrive(destination, m) && is_known_device_range(destination, bytes))
    return on_host(reinterpret_cast<void*>(destination), source, bytes, target);
  if (bytes <= searched_bytes_max) note_host_addresses(source, bytes);
  if (m == mode::in_stream)
    if (const auto r = captured_copy(true, destination, source, bytes, target)) return *r;
  if (m == mode::in_stream) {
    if (const auto r = upload_from_pinned(destination, source, bytes, target)) return *r;
  }
  // What a copy of this size reads now must be what it would find in its turn; and its data must
  // not be in the way of data that the stream before it still waits for.
  const bool large = bytes > wire::limits::inline_payload_bytes_max;
  if (!any_capture() && ((m == mode::synchronous && is_still_written(source, bytes)) ||
                         (large && uploads_pending()))) {
    if (const CUresult r = wait_for_stream(target); r != CUDA_SUCCESS) return r;
  }
  msg::copy_to_device::request q;
  q.destination = destination;
  q.stream = target.id;
  q.synchronous = m == mode::synchronous;
  q.bytes = bytes;
  const auto* data = static_cast<const std::byte*>(source);
  if (bytes > wire::limits::inline_payload_bytes_max) {
    if (leaves_known_device_memory(destination, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (is_freed_device_memory(destination)) return refuse_freed_memory();
    const wire::transfer transfer{{data, bytes}, {}};
    return call_operation<msg::copy_to_device>(*target.credit, 0, q, transfer).result;
  }
  q.data = {data, bytes};
  if (is_known_device_range(destination, bytes))
    return post_operation<msg::copy_to_device>(*target.credit, bytes, q);
  if (is_freed_device_memory(destination)) return refuse_freed_memory();
  return call_operation<msg::copy_to_device>(*target.credit, bytes, q).result;
}

CUresult from_device(void* destination, CUdeviceptr source, std::size_t bytes,
                     const stream_target& target, mode m) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (destination == nullptr || source == 0) return CUDA_ERROR_INVALID_VALUE;
  if (place_of(address_of(destination)) == place::gpu)
    return on_device(between(address_of(destination), source, bytes), target, m);
  if (m == mode::in_stream)
    if (const auto r = captured_copy(false, source, destination, bytes, target)) return *r;
  if (is_freed_device_memory(source)) return refuse_freed_memory();
  if (must_arrive(source, m) && is_known_device_range(source, bytes))
    return on_host(destination, reinterpret_cast<const void*>(source), bytes, target);
  if (m == mode::in_stream) {
    if (const auto r = deliver_to_pinned(destination, source, bytes, target)) return *r;
  }
  if (const CUresult r = before_device_work(); r != CUDA_SUCCESS) return r;
  msg::copy_from_device::request q;
  q.source = source;
  q.stream = target.id;
  q.synchronous = m == mode::synchronous;
  q.bytes = bytes;
  if (bytes > wire::limits::reply_inline_bytes_max) {
    const wire::transfer transfer{{}, {static_cast<std::byte*>(destination), bytes}};
    const auto a = transact<msg::copy_from_device>(q, transfer);
    note_idle(target.credit->idle_at, a);
    return a.result;
  }
  const auto a = transact<msg::copy_from_device>(q);
  note_idle(target.credit->idle_at, a);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (a.body.data.size != bytes) {
    detail::reply_is_malformed("copy_from_device");
    return CUDA_ERROR_UNKNOWN;
  }
  std::memcpy(destination, a.body.data.data, bytes);
  return CUDA_SUCCESS;
}

// Both sides lie in this process: in stream order, which means after what the stream holds now.
CUresult on_host(void* destination, const void* source, std::size_t bytes,
                 const stream_target& target) {
  if (const CUresult r = wait_for_stream(target); r != CUDA_SUCCESS) return r;
  std::memmove(destination, source, bytes);
  return CUDA_SUCCESS;
}

CUresult unified(CUdeviceptr dst, CUdeviceptr src, std::size_t bytes, const stream_target& target,
                 mode m) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (dst == 0 || src == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool to_gpu = place_of(dst) == place::gpu, from_gpu = place_of(src) == place::gpu;
  if (to_gpu && from_gpu) return on_device(between(dst, src, bytes), target, m);
  if (to_gpu) return to_device(dst, reinterpret_cast<const void*>(src), bytes, target, m);
  if (from_gpu) return from_device(reinterpret_cast<void*>(dst), src, bytes, target, m);
  return on_host(reinterpret_cast<void*>(dst), reinterpret_cast<const void*>(src), bytes, target);
}

CUresult from_host(CUdeviceptr destination, const void* source, std::size_t bytes,
                   const stream_target& target, mode m) {
  if (target.result != CUDA_SUCCESS) return target.result;
  if (source != nullptr && place_of(destination) == place::host)
    return unified(destination, address_of(source), bytes, target, m);
  return to_device(destination, source, bytes, target, m);
}

CUresult to_host(void* destination, CUdeviceptr source, std::size_t bytes,
                 const stream_target& target, mode m) {
  if (target.result != CUDA_SUCCESS) return target.result;
  if (destination != nullptr && place_of(source) == place::host)
    return unified(address_of(destination), source, bytes, target, m);
  return from_device(destination, source, bytes, target, m);
}

struct fill {
  CUdeviceptr destination = 0;
  std::size_t pitch = 0, width = 0, height = 1;
  unsigned value = 0;
  unsigned char element_bytes = 1;
  bool two_dimensional = false;
};

// Whether the fill certainly succeeds; otherwise the driver is asked, which knows the code.
bool is_certain(const fill& f) {
  if (f.destination % f.element_bytes != 0) return false;
  std::uint64_t row = 0, rows = 0, end = 0;
  if (__builtin_mul_overflow(f.width, std::uint64_t{f.element_bytes}, &row)) return false;
  if (!f.two_dimensional) return is_known_device_range(f.destination, row);
  if (f.pitch % f.element_bytes != 0 || f.pitch < row) return false;
  if (__builtin_mul_overflow(f.pitch, f.height - 1, &rows) ||
      __builtin_add_overflow(rows, row, &end))
    return false;
  return is_known_device_range(f.destination, end);
}

CUresult memset_device(const fill& f, const stream_target& target, mode m) {
  if (target.result != CUDA_SUCCESS) return target.result;
  if (f.width == 0 || f.height == 0) return CUDA_SUCCESS;
  msg::memset::request q;
  q.destination = f.destination;
  q.pitch = f.pitch;
  q.value = f.value;
  q.element_bytes = f.element_bytes;
  q.width = f.width;
  q.height = f.height;
  q.stream = target.id;
  q.two_dimensional = f.two_dimensional;
  q.synchronous = m == mode::synchronous;
  if (is_certain(f)) {
    const CUresult r = post_operation<msg::memset>(*target.credit, 0, q);
    return r == CUDA_SUCCESS && must_arrive(f.destination, m) ? wait_for_stream(target) : r;
  }
  if (is_freed_device_memory(f.destination)) return refuse_freed_memory();
  // Pinned memory may be filled like any other, once the device can reach it.
  if (place_of(f.destination) == place::host) (void)make_direct(f.destination);
  const CUresult r = call_operation<msg::memset>(*target.credit, 0, q).result;
  if (r != CUDA_SUCCESS && debug_log_wanted()) {
    const auto range = state().memory.find(f.destination);
    log_debug(
        "a fill is refused by the server with {}: {} elements of {} bytes at {:#x}, {} by {:#x}, "
        "{} bytes",
        static_cast<int>(r), f.width, f.element_bytes, f.destination,
        range ? "which lies in the range" : "nothing known", range ? range->base : 0,
        range ? range->bytes : 0);
  }
  return r;
}

fill row(CUdeviceptr destination, unsigned value, unsigned char element_bytes, std::size_t count) {
  fill f;
  f.destination = destination;
  f.value = value;
  f.element_bytes = element_bytes;
  f.width = count;
  return f;
}

fill rows(CUdeviceptr destination, std::size_t pitch, unsigned value, unsigned char element_bytes,
          std::size_t width, std::size_t height) {
  fill f = row(destination, value, element_bytes, width);
  f.pitch = pitch;
  f.height = height;
  f.two_dimensional = true;
  return f;
}

}  // namespace

namespace custom {

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, std::size_t ByteCount) {
  const auto target = target_of(nullptr, mode::synchronous);
  return from_host(dstDevice, srcHost, ByteCount, target, mode::synchronous);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, std::size_t ByteCount,
                              CUstream hStream) {
  const auto target = target_of(hStream, mode::in_stream);
  return from_host(dstDevice, srcHost, ByteCount, target, mode::in_stream);
}

CUresult cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, std::size_t ByteCount) {
  const auto target = target_of(nullptr, mode::synchronous);
  return to_host(dstHost, srcDevice, ByteCount, target, mode::synchronous);
}
CUresult cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, std::size_t ByteCount,
                              CUstream hStream) {
  const auto target = target_of(hStream, mode::in_stream);
  return to_host(dstHost, srcDevice, ByteCount, target, mode::in_stream);
}

namespace {
CUresult device_to_device(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes,
                          const stream_target& target, mode m) {
  if (target.result != CUDA_SUCCESS) return target.result;
  const place to = place_of(destination), from = place_of(source);
  if ((to == place::host && from != place::unknown) ||
      (from == place::host && to != place::unknown))
    return unified(destination, source, bytes, target, m);
  return on_device(between(destination, source, bytes), target, m);
}

CUresult peer_copy(const device_copy& copy, const stream_target& target, mode m) {
  if (target.result != CUDA_SUCCESS) return target.result;
  if (find_context(copy.destination_context) == nullptr ||
      find_context(copy.source_context) == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  return on_device(copy, target, m);
}
}  // namespace

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, std::size_t ByteCount) {
  return device_to_device(dstDevice, srcDevice, ByteCount, target_of(nullptr, mode::synchronous),
                          mode::synchronous);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, std::size_t ByteCount,
                              CUstream hStream) {
  return device_to_device(dstDevice, srcDevice, ByteCount, target_of(hStream, mode::in_stream),
                          mode::in_stream);
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                      CUcontext srcContext, std::size_t ByteCount) {
  return peer_copy({dstDevice, srcDevice, id_of(dstContext), id_of(srcContext), ByteCount, true},
                   target_of(nullptr, mode::synchronous), mode::synchronous);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, std::size_t ByteCount, CUstream hStream) {
  return peer_copy({dstDevice, srcDevice, id_of(dstContext), id_of(srcContext), ByteCount, true},
                   target_of(hStream, mode::in_stream), mode::in_stream);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, std::size_t ByteCount) {
  const auto target = target_of(nullptr, mode::synchronous);
  if (target.result != CUDA_SUCCESS) return target.result;
  return unified(dst, src, ByteCount, target, mode::synchronous);
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, std::size_t ByteCount, CUstream hStream) {
  const auto target = target_of(hStream, mode::in_stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  return unified(dst, src, ByteCount, target, mode::in_stream);
}

// ---- memsets ----

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, std::size_t N) {
  return memset_device(row(dstDevice, uc, 1, N), target_of(nullptr, mode::synchronous),
                       mode::synchronous);
}
CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, std::size_t N) {
  return memset_device(row(dstDevice, us, 2, N), target_of(nullptr, mode::synchronous),
                       mode::synchronous);
}
CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, std::size_t N) {
  return memset_device(row(dstDevice, ui, 4, N), target_of(nullptr, mode::synchronous),
                       mode::synchronous);
}
CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, std::size_t dstPitch, unsigned char uc,
                         std::size_t Width, std::size_t Height) {
  return memset_device(rows(dstDevice, dstPitch, uc, 1, Width, Height),
                       target_of(nullptr, mode::synchronous), mode::synchronous);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, std::size_t dstPitch, unsigned short us,
                          std::size_t Width, std::size_t Height) {
  return memset_device(rows(dstDevice, dstPitch, us, 2, Width, Height),
                       target_of(nullptr, mode::synchronous), mode::synchronous);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, std::size_t dstPitch, unsigned int ui,
                          std::size_t Width, std::size_t Height) {
  return memset_device(rows(dstDevice, dstPitch, ui, 4, Width, Height),
                       target_of(nullptr, mode::synchronous), mode::synchronous);
}
CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, std::size_t N, CUstream hStream) {
  return memset_device(row(dstDevice, uc, 1, N), target_of(hStream, mode::in_stream),
                       mode::in_stream);
}
CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, std::size_t N,
                          CUstream hStream) {
  return memset_device(row(dstDevice, us, 2, N), target_of(hStream, mode::in_stream),
                       mode::in_stream);
}
CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, std::size_t N, CUstream hStream) {
  return memset_device(row(dstDevice, ui, 4, N), target_of(hStream, mode::in_stream),
                       mode::in_stream);
}
CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, std::size_t dstPitch, unsigned char uc,
                           std::size_t Width, std::size_t Height, CUstream hStream) {
  return memset_device(rows(dstDevice, dstPitch, uc, 1, Width, Height),
                       target_of(hStream, mode::in_stream), mode::in_stream);
}
CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, std::size_t dstPitch, unsigned short us,
                            std::size_t Width, std::size_t Height, CUstream hStream) {
  return memset_device(rows(dstDevice, dstPitch, us, 2, Width, Height),
                       target_of(hStream, mode::in_stream), mode::in_stream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, std::size_t dstPitch, unsigned int ui,
                            std::size_t Width, std::size_t Height, CUstream hStream) {
  return memset_device(rows(dstDevice, dstPitch, ui, 4, Width, Height),
                       target_of(hStream, mode::in_stream), mode::in_stream);
}

}  // namespace custom
}  // namespace gpuwire::shim
