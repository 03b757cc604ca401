// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation and memory pools of devices and of the host.
#include <cstring>

#include "capture.hpp"
#include "context.hpp"
#include "graph_memory.hpp"
#include "guard.hpp"
#include "pool.hpp"
#include "scheduler.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

constexpr int host_ordinal = -1;

// The place of a location in the tables of default and current pools.
int ordinal_of(const CUmemLocation* location, CUmemAllocationType type) {
  require(location != nullptr);
  require(type == CU_MEM_ALLOCATION_TYPE_PINNED || type == CU_MEM_ALLOCATION_TYPE_MANAGED);
  switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      device_of(location->id);
      require(type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
      return location->id;
    case CU_MEM_LOCATION_TYPE_HOST:
      require(type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
      return host_ordinal;
    case CU_MEM_LOCATION_TYPE_NONE:
      require(type == CU_MEM_ALLOCATION_TYPE_MANAGED);
      refuse(CUDA_ERROR_NOT_SUPPORTED);
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      refuse(CUDA_ERROR_NOT_SUPPORTED);
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

int ordinal_of(const memory_pool& pool) {
  return pool.kind == memory_kind::host_pool ? host_ordinal : pool.on.ordinal;
}

void check(CUmemPool_attribute which) {
  require(which >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
          which <= CU_MEMPOOL_ATTR_USED_MEM_HIGH);
}

bool is_flag(CUmemPool_attribute which) {
  return which == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
         which == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
         which == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

// A stream-ordered allocation in a capture is a node of the graph, with memory of its own.
CUdeviceptr capture_allocation(const std::shared_ptr<stream>& on, const memory_pool& from,
                               size_t bytes) {
  alloc_payload made;
  made.parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, from.on.ordinal};
  made.parameters.bytesize = bytes;
  made.memory = make_graph_memory(from.on, on->in->id, bytes);
  const CUdeviceptr address = made.parameters.dptr = made.memory->block.base;
  capture_node(on, std::move(made));
  return address;
}

CUresult allocate(CUdeviceptr* out, size_t bytes, CUstream handle, CUmemoryPool pool) {
  return initialised([&] {
    auto on = stream_of(handle);
    require(out != nullptr);
    auto from = pool == nullptr ? current_pool(on->in->on.ordinal) : pool_of(pool);
    if (is_capturing(*on)) {
      require(bytes > 0);
      *out = capture_allocation(on, *from, bytes);
      return CUDA_SUCCESS;
    }
    // Nothing is an allocation too, at the null address.
    *out = bytes == 0 ? 0 : from->allocate(on, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult set_current(int ordinal, CUmemoryPool handle) {
  check_unsafe_call();
  auto pool = pool_of(handle);
  require(ordinal_of(*pool) == ordinal);
  set_current_pool(ordinal, pool);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return allocate(out, bytes, stream, nullptr);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  if (pool == nullptr) return initialised([] { return CUDA_ERROR_INVALID_VALUE; });
  return allocate(out, bytes, stream, pool);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return initialised([&] {
    auto in = stream_of(handle);
    if (address == 0) return CUDA_SUCCESS;
    if (is_capturing(*in)) {
      // Only what a graph allocates can a graph free.
      require(graph_memory_at(address) != nullptr);
      capture_node(in, free_payload{address});
      return CUDA_SUCCESS;
    }
    if (free_graph_memory(address)) return CUDA_SUCCESS;
    if (auto pool = pool_at(address)) {
      pool->free(address, in);
      return CUDA_SUCCESS;
    }
    // Memory of cuMemAlloc may be freed in stream order too.
    auto known = memory_table::instance().find(address);
    require(known && known->base == address && known->kind == memory_kind::device);
    operation what;
    what.what = operation::kind::work;
    what.even_after_error = true;
    what.run = [entry = *known] { memory_table::instance().remove_exactly(entry); };
    scheduler::instance().submit(in, std::move(what));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* wanted) {
  return initialised([&] {
    check_unsafe_call();
    require(out != nullptr && wanted != nullptr);
    require(wanted->allocType == CU_MEM_ALLOCATION_TYPE_PINNED ||
            wanted->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED);
    require(wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            (wanted->location.id >= 0 &&
             static_cast<std::size_t>(wanted->location.id) < devices().size()));
    const int ordinal = ordinal_of(&wanted->location, wanted->allocType);
    const bool host = ordinal == host_ordinal;
    require(wanted->win32SecurityAttributes == nullptr);
    if (wanted->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
      require(!host && wanted->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      refuse(CUDA_ERROR_NOT_SUPPORTED);
    }
    require((wanted->usage & ~CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS) == 0);
    require(wanted->usage == 0, CUDA_ERROR_NOT_SUPPORTED);
    const CUmemoryPool handle = pools().mint();
    auto made = std::make_shared<memory_pool>(device_of(host ? 0 : ordinal), handle,
                                              host ? memory_kind::host_pool : memory_kind::pool,
                                              wanted->maxSize == 0 ? UINT64_MAX : wanted->maxSize);
    pools().insert(handle, std::move(made));
    *out = handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return initialised([&] {
    check_unsafe_call();
    auto pool = pool_of(handle);
    require(default_pool(ordinal_of(*pool)) != pool);
    require(pools().remove(handle) != nullptr);
    forget_current_pool(*pool);
    pool->retire();
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t bytes_to_keep) {
  return initialised([&] {
    check_unsafe_call();
    pool_of(handle)->trim(bytes_to_keep);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute which, void* value) {
  return initialised([&] {
    check_unsafe_call();
    auto pool = pool_of(handle);
    require(value != nullptr);
    check(which);
    std::uint64_t wanted = 0;
    std::memcpy(&wanted, value, is_flag(which) ? sizeof(int) : sizeof(cuuint64_t));
    pool->set_attribute(which, wanted);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute which, void* value) {
  return initialised([&] {
    check_unsafe_call();
    auto pool = pool_of(handle);
    require(value != nullptr);
    check(which);
    const std::uint64_t now = pool->attribute(which);
    std::memcpy(value, &now, is_flag(which) ? sizeof(int) : sizeof(cuuint64_t));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* map, size_t count) {
  return initialised([&] {
    auto pool = pool_of(handle);
    require(map != nullptr || count == 0);
    for (size_t at = 0; at < count; ++at) {
      require(map[at].location.type == CU_MEM_LOCATION_TYPE_DEVICE);
      auto& by = device_of(map[at].location.id);
      require(map[at].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
              map[at].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
              map[at].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      // A device cannot lose its own memory, and pools cannot be shown read-only.
      require(map[at].flags != CU_MEM_ACCESS_FLAGS_PROT_READ, CUDA_ERROR_NOT_SUPPORTED);
      require(by.ordinal != ordinal_of(*pool) || map[at].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE,
              CUDA_ERROR_INVALID_DEVICE);
    }
    for (size_t at = 0; at < count; ++at) pool->set_access(map[at].location.id, map[at].flags);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle,
                            CUmemLocation* location) {
  return initialised([&] {
    auto pool = pool_of(handle);
    require(flags != nullptr && location != nullptr);
    if (location->type == CU_MEM_LOCATION_TYPE_HOST) {
      *flags = pool->kind == memory_kind::host_pool ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                    : CU_MEM_ACCESS_FLAGS_PROT_NONE;
      return CUDA_SUCCESS;
    }
    require(location->type == CU_MEM_LOCATION_TYPE_DEVICE);
    *flags = pool->access_of(device_of(location->id).ordinal);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice dev) {
  return initialised([&] {
    auto& on = device_of(dev);
    require(out != nullptr);
    *out = default_pool(on.ordinal)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice dev) {
  return initialised([&] {
    auto& on = device_of(dev);
    require(out != nullptr);
    *out = current_pool(on.ordinal)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  return initialised([&] { return set_current(device_of(dev).ordinal, pool); });
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location,
                                CUmemAllocationType type) {
  return initialised([&] {
    require(out != nullptr);
    *out = default_pool(ordinal_of(location, type))->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  return initialised([&] {
    require(out != nullptr);
    *out = current_pool(ordinal_of(location, type))->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  return initialised([&] { return set_current(ordinal_of(location, type), pool); });
}
