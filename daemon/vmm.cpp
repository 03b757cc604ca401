// SPDX-License-Identifier: Apache-2.0
// Virtual memory management. The driver counts how often an allocation's handle was given out; its number here lives until
// the last of them was released.
#include <mutex>
#include <unordered_map>

#include "daemon/allocations.hpp"
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/locations.hpp"

namespace gpuwire::daemon {

namespace {

struct counts {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::uint32_t> further;  // beyond the first
};
counts& counted() {
  static auto* c = new counts;
  return *c;
}

}  // namespace

std::uint64_t give_allocation(call_context& c, CUmemGenericAllocationHandle native) {
  auto& book = counted();
  std::lock_guard lock(book.mutex);
  auto& table = c.owner().handles(handle_kind::allocation);
  const auto before = table.size();
  const auto id = c.mint<handle_kind::allocation>(native);
  if (id != 0 && table.size() == before) ++book.further[id];
  return id;
}

namespace {

// True: that was the last one.
bool release_once(std::uint64_t id) {
  auto& book = counted();
  std::lock_guard lock(book.mutex);
  const auto found = book.further.find(id);
  if (found == book.further.end()) return true;
  if (--found->second == 0) book.further.erase(found);
  return false;
}

}  // namespace

namespace custom {
namespace {

template <class List>
CUmemAllocationProp properties_from(const List& list) {
  const auto& p = list.front();
  CUmemAllocationProp prop{};
  prop.type = static_cast<CUmemAllocationType>(p.type);
  prop.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(p.handle_types);
  prop.location.type = static_cast<CUmemLocationType>(p.location_type);
  prop.location.id = p.location;
  prop.allocFlags.compressionType = p.compression;
  prop.allocFlags.gpuDirectRDMACapable = p.direct_access;
  prop.allocFlags.usage = p.usage;
  return prop;
}

}  // namespace

outcome address_reserve(call_context& c, const msg::address_reserve::request& q) {
  using call = msg::address_reserve;
  const auto& d = c.driver();
  if (d.cuMemAddressReserve == nullptr || d.cuMemAddressFree == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUdeviceptr address = 0;
  const auto result = d.cuMemAddressReserve(&address, q.bytes, q.alignment, q.wanted, q.flags);
  if (q.replaces != 0) d.cuMemAddressFree(q.replaces, q.bytes);
  call::reply r;
  if (result == CUDA_SUCCESS) r.address = address;
  return c.finish<call>(result, r);
}

outcome allocation_create(call_context& c, const msg::allocation_create::request& q) {
  using call = msg::allocation_create;
  if (q.properties.size() != 1) return c.malformed();
  const auto prop = properties_from(q.properties);
  if (c.driver().cuMemCreate == nullptr || is_on_host(prop.location))
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUmemGenericAllocationHandle native = 0;
  const auto result = c.driver().cuMemCreate(&native, q.bytes, &prop, q.flags);
  call::reply r;
  if (result == CUDA_SUCCESS) r.allocation = give_allocation(c, native);
  return c.finish<call>(result, r);
}

// The number goes first: the driver may give the same handle to the next allocation at once.
outcome cuMemRelease(call_context& c, const msg::cuMemRelease::request& q) {
  using call = msg::cuMemRelease;
  const auto native = c.native<handle_kind::allocation>(q.handle);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (c.driver().cuMemRelease == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  if (q.handle != 0 && release_once(q.handle)) c.release<handle_kind::allocation>(q.handle);
  return c.finish<call>(c.driver().cuMemRelease(native), {});
}

outcome memory_set_access(call_context& c, const msg::memory_set_access::request& q) {
  const auto access = access_from(q.access);
  return c.finish<msg::memory_set_access>(
      c.driver().cuMemSetAccess
          ? c.driver().cuMemSetAccess(q.address, q.bytes, access.data(), access.size())
          : CUDA_ERROR_NOT_SUPPORTED,
      {});
}

outcome memory_get_access(call_context& c, const msg::memory_get_access::request& q) {
  using call = msg::memory_get_access;
  const auto location = location_from(q.location);
  if (!location) return c.malformed();
  unsigned long long flags = 0;
  const auto result = c.driver().cuMemGetAccess
                          ? c.driver().cuMemGetAccess(&flags, &*location, q.address)
                          : CUDA_ERROR_NOT_SUPPORTED;
  call::reply r;
  r.flags = flags;
  return c.finish<call>(result, r);
}

outcome allocation_granularity(call_context& c, const msg::allocation_granularity::request& q) {
  using call = msg::allocation_granularity;
  if (q.properties.size() != 1) return c.malformed();
  const auto prop = properties_from(q.properties);
  std::size_t granularity = 0;
  const auto result =
      c.driver().cuMemGetAllocationGranularity
          ? c.driver().cuMemGetAllocationGranularity(
                &granularity, &prop, static_cast<CUmemAllocationGranularity_flags>(q.option))
          : CUDA_ERROR_NOT_SUPPORTED;
  call::reply r;
  r.granularity = granularity;
  return c.finish<call>(result, r);
}

outcome allocation_properties_get(call_context& c,
                                  const msg::allocation_properties_get::request& q) {
  using call = msg::allocation_properties_get;
  const auto native = c.native<handle_kind::allocation>(q.allocation);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  CUmemAllocationProp prop{};
  const auto result = c.driver().cuMemGetAllocationPropertiesFromHandle
                          ? c.driver().cuMemGetAllocationPropertiesFromHandle(&prop, native)
                          : CUDA_ERROR_NOT_SUPPORTED;
  call::reply r;
  if (result == CUDA_SUCCESS) {
    r.properties.resize(1);
    auto& p = r.properties[0];
    p.type = static_cast<std::uint32_t>(prop.type);
    p.handle_types = static_cast<std::uint32_t>(prop.requestedHandleTypes);
    p.location_type = static_cast<std::uint32_t>(prop.location.type);
    p.location = prop.location.id;
    p.compression = prop.allocFlags.compressionType;
    p.direct_access = prop.allocFlags.gpuDirectRDMACapable;
    p.usage = prop.allocFlags.usage;
  }
  return c.finish<call>(result, r);
}

outcome allocation_retain(call_context& c, const msg::allocation_retain::request& q) {
  using call = msg::allocation_retain;
  CUmemGenericAllocationHandle native = 0;
  const auto result = c.driver().cuMemRetainAllocationHandle
                          ? c.driver().cuMemRetainAllocationHandle(
                                &native, reinterpret_cast<void*>(q.address))
                          : CUDA_ERROR_NOT_SUPPORTED;
  call::reply r;
  if (result == CUDA_SUCCESS) r.allocation = give_allocation(c, native);
  return c.finish<call>(result, r);
}

}  // namespace custom
}  // namespace gpuwire::daemon
