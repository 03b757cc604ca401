// SPDX-License-Identifier: Apache-2.0
// Allocation of device and pinned memory, registration of the program's own. The first revisions of
// the calls that hand out addresses have 32 bits for one: they are not exported.
#include <algorithm>

#include "capture.hpp"
#include "context.hpp"
#include "graph_memory.hpp"
#include "guard.hpp"
#include "memory.hpp"
#include "pool.hpp"
#include "scheduler.hpp"

using namespace gpuwire::softgpu;

namespace {

constexpr std::uint64_t page = 4096;

std::uint64_t allocate_device(context& in, std::uint64_t bytes) {
  require(bytes > 0);
  check_unsafe_call();
  allocation_request request;
  request.bytes = bytes;
  request.context_id = in.id;
  auto made = memory_table::instance().allocate(in.on, request);
  require(made.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
  return made->base;
}

CUresult free_device(std::uint64_t address) {
  return with_context([&](context& current) {
    if (address == 0) return CUDA_SUCCESS;
    check_unsafe_call();
    if (free_graph_memory(address)) return CUDA_SUCCESS;
    // Of a pool's memory CUDA assumes that nothing uses it any more, and does not wait.
    if (auto pool = pool_at(address)) {
      pool->free_at_once(address);
      return CUDA_SUCCESS;
    }
    auto known = memory_table::instance().find(address);
    require(known && known->base == address && known->kind == memory_kind::device);
    scheduler::instance().synchronise(current);
    current.flush_print();
    require(memory_table::instance().remove(address, {memory_kind::device}).has_value());
    return current.error();
  });
}

CUresult allocate_host(void** out, std::uint64_t bytes, unsigned flags) {
  return with_context([&](context& current) {
    constexpr unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    require(out != nullptr && bytes > 0 && (flags & ~known) == 0);
    check_unsafe_call();
    allocation_request request;
    request.bytes = bytes;
    request.align = page;
    request.kind = memory_kind::host;
    request.context_id = current.id;
    request.flags = flags;
    auto made = memory_table::instance().allocate(current.on, request);
    require(made.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
    *out = reinterpret_cast<void*>(made->base);
    return CUDA_SUCCESS;
  });
}

CUresult register_host(void* start, std::uint64_t bytes, unsigned flags) {
  return with_context([&](context& current) {
    constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                               CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    const auto address = reinterpret_cast<std::uint64_t>(start);
    require(start != nullptr && bytes > 0 && (flags & ~known) == 0 &&
            bytes <= UINT64_MAX - address);
    require((flags & CU_MEMHOSTREGISTER_IOMEMORY) == 0, CUDA_ERROR_NOT_SUPPORTED);
    check_unsafe_call();
    allocation range;
    range.base = address;
    range.bytes = bytes;
    range.kind = memory_kind::registered;
    range.writable = (flags & CU_MEMHOSTREGISTER_READ_ONLY) == 0;
    range.context_id = current.id;
    range.device_ordinal = current.on.ordinal;
    range.flags = flags;
    require(memory_table::instance().add_registered(range),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    return CUDA_SUCCESS;
  });
}

allocation host_range(const void* pointer) {
  auto found = memory_table::instance().find(reinterpret_cast<std::uint64_t>(pointer));
  require(found && found->is_host());
  return *found;
}

}  // namespace

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return with_context([&](context& current) {
    require(free != nullptr && total != nullptr);
    *total = current.on.memory_bytes;
    *free =
        current.on.memory_bytes -
        std::min(memory_table::instance().used_bytes(current.on.ordinal), current.on.memory_bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  return with_context([&](context& current) {
    require(out != nullptr);
    *out = allocate_device(current, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width_bytes, size_t height,
                            unsigned int element_bytes) {
  return with_context([&](context& current) {
    require(out != nullptr && pitch != nullptr && width_bytes > 0 && height > 0);
    require(element_bytes == 4 || element_bytes == 8 || element_bytes == 16);
    require(width_bytes <= limits::pitch_bytes_max);
    const std::uint64_t row = (width_bytes + limits::pitch_alignment - 1) /
                              limits::pitch_alignment * limits::pitch_alignment;
    require(height <= UINT64_MAX / row, CUDA_ERROR_OUT_OF_MEMORY);
    *out = allocate_device(current, row * height);
    *pitch = row;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return free_device(address);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  return with_context([&](context&) {
    auto found = memory_table::instance().find(address);
    require(found && (found->kind != memory_kind::mapped || found->readers != 0),
            CUDA_ERROR_NOT_FOUND);
    if (base != nullptr) *base = found->base;
    if (bytes != nullptr) *bytes = found->bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  return allocate_host(out, bytes, 0);
}
CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  return allocate_host(out, bytes, flags);
}

CUresult cuMemFreeHost(void* pointer) {
  return initialised([&] {
    if (pointer == nullptr) return CUDA_SUCCESS;
    check_unsafe_call();
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    auto known = memory_table::instance().find(address);
    require(known && known->base == address && known->kind == memory_kind::host);
    // Any context may use it: none may be at work on it.
    contexts().for_each_copy(
        [](const std::shared_ptr<context>& each) { scheduler::instance().synchronise(*each); });
    require(memory_table::instance().remove(address, {memory_kind::host}).has_value());
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostRegister(void* start, size_t bytes, unsigned int flags) {
  return register_host(start, bytes, flags);
}
CUresult cuMemHostRegister_v2(void* start, size_t bytes, unsigned int flags) {
  return register_host(start, bytes, flags);
}

CUresult cuMemHostUnregister(void* pointer) {
  return initialised([&] {
    require(pointer != nullptr);
    check_unsafe_call();
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    auto known = memory_table::instance().find(address);
    require(known && known->base == address && known->kind == memory_kind::registered,
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    contexts().for_each_copy(
        [](const std::shared_ptr<context>& each) { scheduler::instance().synchronise(*each); });
    require(memory_table::instance().remove(address, {memory_kind::registered}).has_value(),
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
  return with_context([&](context&) {
    require(out != nullptr && pointer != nullptr && flags == 0);
    host_range(pointer);
    *out = reinterpret_cast<CUdeviceptr>(pointer);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  return with_context([&](context&) {
    require(flags != nullptr && pointer != nullptr);
    // With unified addressing all pinned memory is mapped, asked for or not.
    *flags = host_range(pointer).flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
  });
}
