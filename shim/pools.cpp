// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation and memory pools. An allocation waits for its address, a free is
// posted. A pool cuts its memory into pieces that it gives out again and again, so a range is known
// here exactly while the program holds it.
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "shim/contexts.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/locations.hpp"
#include "shim/log.hpp"
#include "shim/memory.hpp"

namespace gpuwire::shim {
namespace {

constexpr int placement_tries = 8;

// Which device a pool that the program made is on. Any thread.
class pool_devices {
 public:
  void add(std::uint64_t pool, int device) {
    std::lock_guard lock(mutex_);
    devices_[pool] = device;
  }
  int find(std::uint64_t pool, int otherwise) {
    std::lock_guard lock(mutex_);
    const auto found = devices_.find(pool);
    return found == devices_.end() ? otherwise : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, int> devices_;
};

pool_devices& devices_of_pools() {
  static auto* d = new pool_devices;
  return *d;
}

int device_of(const stream_target& target) {
  const context_record* c =
      target.record != nullptr ? state().contexts.find(target.record->context) : self().current();
  return c != nullptr ? c->device : 0;
}

memory_entry entry_for(std::uint64_t pool, const stream_target& target, bool captured) {
  memory_entry e = new_memory_entry(captured ? memory_kind::graph : memory_kind::pool);
  e.context = 0;  // memory of a pool outlives the context
  e.device = devices_of_pools().find(pool, device_of(target));
  e.owner = pool;
  return e;
}

CUresult allocate(CUdeviceptr* dptr, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
  const auto target = find_stream(stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (dptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::memory_allocate_async::request q;
  q.bytes = bytes;
  q.pool = id_of(pool);
  q.stream = target.id;
  for (int i = 0; i < placement_tries; ++i) {
    const auto a = call<msg::memory_allocate_async>(q);
    if (a.result != CUDA_SUCCESS) return a.result;
    if (bytes == 0 ||
        keep_device_range(a.body.address, bytes, entry_for(q.pool, target, a.body.captured))) {
      *dptr = a.body.address;
      return CUDA_SUCCESS;
    }
    log_debug("the pool's address {:#x} ({} bytes) is in use in this process, asking for another",
              a.body.address, bytes);
    q.replaces = a.body.address;
  }
  msg::memory_free_async::request release;
  release.address = q.replaces;
  release.stream = target.id;
  const CUresult released =
      call_operation<msg::memory_free_async>(*target.credit, 0, release).result;
  write_line("no device address of the server is free in this process; the allocation fails");
  return released == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : released;
}

bool is_flag(CUmemPool_attribute attribute) {
  return attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
         attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
         attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult attribute_of(CUmemoryPool pool, CUmemPool_attribute attribute, void* value, bool set) {
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::pool_attribute::request q;
  q.pool = id_of(pool);
  q.attribute = static_cast<std::uint32_t>(attribute);
  q.set = set;
  if (set) {
    if (is_flag(attribute)) {
      int flag = 0;
      std::memcpy(&flag, value, sizeof flag);
      q.value = static_cast<std::uint64_t>(static_cast<std::int64_t>(flag));
    } else {
      std::memcpy(&q.value, value, sizeof q.value);
    }
  }
  const auto a = call<msg::pool_attribute>(q);
  if (a.result != CUDA_SUCCESS || set) return a.result;
  if (is_flag(attribute)) {
    const int flag = static_cast<int>(a.body.answer);
    std::memcpy(value, &flag, sizeof flag);
  } else {
    std::memcpy(value, &a.body.answer, sizeof a.body.answer);
  }
  return CUDA_SUCCESS;
}

CUresult pool_of(CUmemoryPool* pool, const CUmemLocation* location, CUmemAllocationType type,
                 bool usual) {
  if (pool == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_location(*location); r != CUDA_SUCCESS) return r;
  msg::pool_of_location::request q;
  q.usual = usual;
  put_location(q.location, location);
  q.type = static_cast<std::uint32_t>(type);
  const auto a = call<msg::pool_of_location>(q);
  if (a.result == CUDA_SUCCESS) *pool = handle_from<CUmemoryPool>(a.body.pool);
  return a.result;
}

}  // namespace

namespace custom {

CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return allocate(dptr, bytesize, nullptr, hStream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                 CUstream hStream) {
  if (pool == nullptr) {
    const CUresult r = find_stream(hStream).result;
    return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
  }
  return allocate(dptr, bytesize, pool, hStream);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  msg::memory_free_async::request q;
  q.address = dptr;
  q.stream = target.id;
  const auto range = state().memory.find(dptr);
  if (!range || range->base != dptr || range->value.kind != memory_kind::pool) {
    const auto a = call_operation<msg::memory_free_async>(*target.credit, 0, q);
    // Memory of cuMemAlloc is taken too. A graph's stays: the next launch of the graph brings it
    // back.
    if (a.result == CUDA_SUCCESS) forget_device_range(dptr, memory_kind::device);
    return a.result;
  }
  // A poisoned context refuses the free, and then the allocation is still there.
  if (const CUresult r = detail::earlier_error(self()); r != CUDA_SUCCESS) return r;
  if (!forget_device_range(dptr, memory_kind::pool)) return CUDA_ERROR_INVALID_VALUE;
  return post_operation<msg::memory_free_async>(*target.credit, 0, q);
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  if (pool == nullptr || poolProps == nullptr || poolProps->win32SecurityAttributes != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_location(poolProps->location); r != CUDA_SUCCESS) return r;
  if ((static_cast<unsigned>(poolProps->handleTypes) &
       ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  msg::pool_create::request q;
  q.type = static_cast<std::uint32_t>(poolProps->allocType);
  q.handle_types = static_cast<std::uint32_t>(poolProps->handleTypes);
  put_location(q.location, &poolProps->location);
  q.bytes_max = poolProps->maxSize;
  q.usage = poolProps->usage;
  const auto a = call<msg::pool_create>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  devices_of_pools().add(a.body.pool, poolProps->location.id);
  *pool = handle_from<CUmemoryPool>(a.body.pool);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  return attribute_of(pool, attr, value, true);
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  return attribute_of(pool, attr, value, false);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  if (pool == nullptr || map == nullptr || count == 0 || count > access_descriptions_max)
    return CUDA_ERROR_INVALID_VALUE;
  msg::pool_set_access::request q;
  q.pool = id_of(pool);
  if (const CUresult r = put_access(q.access, map, count); r != CUDA_SUCCESS) return r;
  return call<msg::pool_set_access>(q).result;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool,
                            CUmemLocation* location) {
  if (flags == nullptr || memPool == nullptr || location == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  msg::pool_get_access::request q;
  q.pool = id_of(memPool);
  put_location(q.location, location);
  const auto a = call<msg::pool_get_access>(q);
  if (a.result == CUDA_SUCCESS) *flags = static_cast<CUmemAccess_flags>(a.body.flags);
  return a.result;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location,
                                CUmemAllocationType type) {
  return pool_of(pool_out, location, type, true);
}
CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  return pool_of(pool, location, type, false);
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  if (location == nullptr || pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_location(*location); r != CUDA_SUCCESS) return r;
  msg::pool_set_location::request q;
  put_location(q.location, location);
  q.type = static_cast<std::uint32_t>(type);
  q.pool = id_of(pool);
  const CUresult r = call<msg::pool_set_location>(q).result;
  if (r == CUDA_SUCCESS) forget_after_cuMemSetMemPool();
  return r;
}

}  // namespace custom
}  // namespace gpuwire::shim
