// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation and memory pools.
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/locations.hpp"

namespace gpuwire::daemon::custom {
namespace {

bool is_flag(CUmemPool_attribute attribute) {
  return attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
         attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
         attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

bool is_capturing(const driver_table& d, CUstream stream) {
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  return d.cuStreamIsCapturing != nullptr &&
         d.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult allocate(call_context& c, const msg::memory_allocate_async::request& q,
                  const stream_reference& s, CUdeviceptr& address) {
  const auto& d = c.driver();
  if (q.pool == 0) {
    return d.cuMemAllocAsync ? d.cuMemAllocAsync(&address, q.bytes, s.native)
                             : CUDA_ERROR_NOT_SUPPORTED;
  }
  const auto pool = c.native<handle_kind::pool>(q.pool);
  if (c.failed()) return c.failure();
  return d.cuMemAllocFromPoolAsync ? d.cuMemAllocFromPoolAsync(&address, q.bytes, pool, s.native)
                                   : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

outcome memory_allocate_async(call_context& c, const msg::memory_allocate_async::request& q) {
  using call = msg::memory_allocate_async;
  const auto s = c.stream_of(q.stream);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  CUdeviceptr address = 0;
  const auto result = allocate(c, q, s, address);
  // The client cannot mirror the first address; freeing it only now keeps the driver from choosing
  // it again.
  if (q.replaces != 0 && c.driver().cuMemFreeAsync) c.driver().cuMemFreeAsync(q.replaces, s.native);
  call::reply r;
  if (result == CUDA_SUCCESS) {
    r.address = address;
    r.captured = is_capturing(c.driver(), s.native);
  }
  return c.finish<call>(result, r);
}

outcome memory_free_async(call_context& c, const msg::memory_free_async::request& q) {
  const auto s = c.stream_of(q.stream);
  auto result = c.failure();
  if (!c.failed())
    result = c.driver().cuMemFreeAsync ? c.driver().cuMemFreeAsync(q.address, s.native)
                                       : CUDA_ERROR_NOT_SUPPORTED;
  c.count_operation(q.stream, s);
  return c.finish<msg::memory_free_async>(result, {});
}

outcome pool_create(call_context& c, const msg::pool_create::request& q) {
  using call = msg::pool_create;
  const auto location = location_from(q.location);
  if (!location || q.usage > 0xffff) return c.malformed();
  if (c.driver().cuMemPoolCreate == nullptr || is_on_host(*location) ||
      (q.handle_types & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) != 0)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUmemPoolProps properties{};
  properties.allocType = static_cast<CUmemAllocationType>(q.type);
  properties.handleTypes = static_cast<CUmemAllocationHandleType>(q.handle_types);
  properties.location = *location;
  properties.maxSize = q.bytes_max;
  properties.usage = static_cast<unsigned short>(q.usage);
  CUmemoryPool pool = nullptr;
  const auto result = c.driver().cuMemPoolCreate(&pool, &properties);
  call::reply r;
  if (result == CUDA_SUCCESS) r.pool = c.mint<handle_kind::pool>(pool);
  return c.finish<call>(result, r);
}

// The number goes first: the driver may give the freed pool's address to the next one at once.
outcome cuMemPoolDestroy(call_context& c, const msg::cuMemPoolDestroy::request& q) {
  using call = msg::cuMemPoolDestroy;
  const auto pool = c.native<handle_kind::pool>(q.pool);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (c.driver().cuMemPoolDestroy == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  auto& table = c.owner().handles(handle_kind::pool);
  if (pool != nullptr) table.remove(q.pool);
  const auto result = c.driver().cuMemPoolDestroy(pool);
  if (result != CUDA_SUCCESS && pool != nullptr) table.put_back(q.pool, pool);
  return c.finish<call>(result, {});
}

outcome pool_attribute(call_context& c, const msg::pool_attribute::request& q) {
  using call = msg::pool_attribute;
  const auto& d = c.driver();
  const auto attribute = static_cast<CUmemPool_attribute>(q.attribute);
  const auto pool = c.native<handle_kind::pool>(q.pool);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  const auto driver_function = q.set ? d.cuMemPoolSetAttribute : d.cuMemPoolGetAttribute;
  if (driver_function == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  call::reply r;
  if (!is_flag(attribute)) {
    cuuint64_t value = q.value;
    const auto result = driver_function(pool, attribute, &value);
    r.answer = value;
    return c.finish<call>(result, r);
  }
  int value = static_cast<int>(q.value);
  const auto result = driver_function(pool, attribute, &value);
  r.answer = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  return c.finish<call>(result, r);
}

outcome pool_set_access(call_context& c, const msg::pool_set_access::request& q) {
  using call = msg::pool_set_access;
  const auto access = access_from(q.access);
  const auto pool = c.native<handle_kind::pool>(q.pool);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  return c.finish<call>(c.driver().cuMemPoolSetAccess
                            ? c.driver().cuMemPoolSetAccess(pool, access.data(), access.size())
                            : CUDA_ERROR_NOT_SUPPORTED,
                        {});
}

outcome pool_get_access(call_context& c, const msg::pool_get_access::request& q) {
  using call = msg::pool_get_access;
  auto location = location_from(q.location);
  if (!location) return c.malformed();
  const auto pool = c.native<handle_kind::pool>(q.pool);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  auto flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  const auto result = c.driver().cuMemPoolGetAccess
                          ? c.driver().cuMemPoolGetAccess(&flags, pool, &*location)
                          : CUDA_ERROR_NOT_SUPPORTED;
  call::reply r;
  r.flags = static_cast<std::uint32_t>(flags);
  return c.finish<call>(result, r);
}

outcome pool_of_location(call_context& c, const msg::pool_of_location::request& q) {
  using call = msg::pool_of_location;
  const auto& d = c.driver();
  auto location = location_from(q.location);
  if (!location) return c.malformed();
  const auto driver_function = q.usual ? d.cuMemGetDefaultMemPool : d.cuMemGetMemPool;
  if (driver_function == nullptr || is_on_host(*location))
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUmemoryPool pool = nullptr;
  const auto result = driver_function(&pool, &*location, static_cast<CUmemAllocationType>(q.type));
  call::reply r;
  if (result == CUDA_SUCCESS) r.pool = c.mint<handle_kind::pool>(pool);
  return c.finish<call>(result, r);
}

outcome pool_set_location(call_context& c, const msg::pool_set_location::request& q) {
  using call = msg::pool_set_location;
  auto location = location_from(q.location);
  if (!location) return c.malformed();
  const auto pool = c.native<handle_kind::pool>(q.pool);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (c.driver().cuMemSetMemPool == nullptr || is_on_host(*location))
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  return c.finish<call>(
      c.driver().cuMemSetMemPool(&*location, static_cast<CUmemAllocationType>(q.type), pool), {});
}

}  // namespace gpuwire::daemon::custom
