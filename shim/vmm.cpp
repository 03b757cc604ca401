// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: the program reserves addresses, creates allocations and maps them. The server's ranges are
// reserved here too; what is mapped and accessible is known device memory, so that copies into it can be posted.
#include <vector>

#include "shim/contexts.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/locations.hpp"
#include "shim/log.hpp"
#include "shim/memory.hpp"

namespace gpuwire::shim {
namespace {

constexpr int placement_tries = 8;

constexpr unsigned handle_types_carried = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// The program's number of a device of the server; -1 for one that it does not see.
int program_ordinal(int server_ordinal) {
  const auto& devices = state().devices;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].server_ordinal == server_ordinal) return static_cast<int>(i);
  return -1;
}

CUresult check_properties(const CUmemAllocationProp* prop) {
  if (prop == nullptr || prop->win32HandleMetaData != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if ((static_cast<unsigned>(prop->requestedHandleTypes) & ~handle_types_carried) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return check_location(prop->location);
}

template <class List>
void put_properties(List& list, const CUmemAllocationProp& prop) {
  list.resize(1);
  auto& p = list[0];
  p.type = static_cast<std::uint32_t>(prop.type);
  p.handle_types = static_cast<std::uint32_t>(prop.requestedHandleTypes);
  p.location_type = static_cast<std::uint32_t>(prop.location.type);
  p.location = server_location(prop.location);
  p.compression = prop.allocFlags.compressionType;
  p.direct_access = prop.allocFlags.gpuDirectRDMACapable;
  p.usage = prop.allocFlags.usage;
}

unsigned device_bit(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && location.id >= 0 && location.id < 32
             ? 1u << location.id
             : 0u;
}

void learn_mapping(std::uint64_t address, std::uint64_t bytes) {
  memory_entry e = new_memory_entry(memory_kind::mapped);
  e.context = 0;  // mappings outlive contexts
  state().memory.insert(address, bytes, e);
}

bool lies_within(const memory_range& r, std::uint64_t base, std::uint64_t bytes) {
  return r.value.kind == memory_kind::mapped && r.base >= base && r.base - base <= bytes &&
         r.bytes <= bytes - (r.base - base);
}

}  // namespace

namespace custom {

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
  if (ptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::address_reserve::request q;
  q.bytes = size;
  q.alignment = alignment;
  q.wanted = addr;
  q.flags = flags;
  for (int i = 0; i < placement_tries; ++i) {
    const auto a = call<msg::address_reserve>(q);
    if (a.result != CUDA_SUCCESS) return a.result;
    if (reserve_device_addresses(a.body.address, size)) {
      *ptr = a.body.address;
      return CUDA_SUCCESS;
    }
    log_debug("the server's range {:#x} ({} bytes) is in use in this process, asking for another",
              a.body.address, size);
    q.replaces = a.body.address;
    q.wanted = 0;  // only a hint
  }
  msg::cuMemAddressFree::request release;
  release.ptr = q.replaces;
  release.size = size;
  const CUresult released = call<msg::cuMemAddressFree>(release).result;
  write_line("no address range of the server is free in this process; the reservation fails");
  return released == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : released;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  msg::cuMemAddressFree::request q;
  q.ptr = ptr;
  q.size = size;
  // The range is given back first: another thread may be given it while the answer travels. If the driver refuses it is
  // taken again, and only if something of this process has moved in meanwhile does a later mapping stay unknown here.
  const bool own = is_reserved_device_address(ptr);
  if (own) free_device_addresses(ptr);
  const CUresult r = call<msg::cuMemAddressFree>(q).result;
  if (r != CUDA_SUCCESS && own) reserve_device_addresses(ptr, size);
  return r;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_properties(prop); r != CUDA_SUCCESS) return r;
  msg::allocation_create::request q;
  q.bytes = size;
  put_properties(q.properties, *prop);
  q.flags = flags;
  const auto a = call<msg::allocation_create>(q);
  if (a.result == CUDA_SUCCESS) *handle = a.body.allocation;
  return a.result;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  msg::cuMemMap::request q;
  q.ptr = ptr;
  q.size = size;
  q.offset = offset;
  q.handle = handle;
  q.flags = flags;
  const CUresult r = call<msg::cuMemMap>(q).result;
  if (r == CUDA_SUCCESS) learn_mapping(ptr, size);
  return r;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  msg::cuMemUnmap::request q;
  q.ptr = ptr;
  q.size = size;
  // Unknown before the command is sent: nothing is posted into the range any more.
  std::vector<memory_range> gone;
  state().memory.erase_if([&](const memory_range& r) { return lies_within(r, ptr, size); },
                          [&](const memory_range& r) { gone.push_back(r); });
  const CUresult r = call<msg::cuMemUnmap>(q).result;
  if (r != CUDA_SUCCESS)
    for (const auto& range : gone) state().memory.insert(range.base, range.bytes, range.value);
  return r;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  if (desc == nullptr || count == 0 || count > access_descriptions_max)
    return CUDA_ERROR_INVALID_VALUE;
  msg::memory_set_access::request q;
  q.address = ptr;
  q.bytes = size;
  if (const CUresult r = put_access(q.access, desc, count); r != CUDA_SUCCESS) return r;
  unsigned granted = 0, named = 0;
  for (std::size_t i = 0; i < count; ++i) {
    named |= device_bit(desc[i].location);
    if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      granted |= device_bit(desc[i].location);
  }
  // What is taken away is taken away before the command is sent, what is granted is granted after it.
  state().memory.change_within(ptr, size, [&](memory_entry& e) {
    if (e.kind == memory_kind::mapped) e.flags &= ~(named & ~granted);
  });
  const CUresult r = call<msg::memory_set_access>(q).result;
  if (r == CUDA_SUCCESS)
    state().memory.change_within(ptr, size, [&](memory_entry& e) {
      if (e.kind == memory_kind::mapped) e.flags |= granted;
    });
  return r;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr ptr) {
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::memory_get_access::request q;
  put_location(q.location, location);
  q.address = ptr;
  const auto a = call<msg::memory_get_access>(q);
  if (a.result == CUDA_SUCCESS) *flags = a.body.flags;
  return a.result;
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
  if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_properties(prop); r != CUDA_SUCCESS) return r;
  msg::allocation_granularity::request q;
  put_properties(q.properties, *prop);
  q.option = static_cast<std::uint32_t>(option);
  const auto a = cached_call<msg::allocation_granularity>(q);
  if (a.result == CUDA_SUCCESS) *granularity = a.body.granularity;
  return a.result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::allocation_properties_get::request q;
  q.allocation = handle;
  const auto a = call<msg::allocation_properties_get>(q);
  if (a.result != CUDA_SUCCESS || a.body.properties.size() != 1) return a.result;
  const auto& p = a.body.properties.front();
  *prop = {};
  prop->type = static_cast<CUmemAllocationType>(p.type);
  prop->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(p.handle_types);
  prop->location.type = static_cast<CUmemLocationType>(p.location_type);
  prop->location.id = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE
                          ? program_ordinal(p.location)
                          : p.location;
  prop->allocFlags.compressionType = p.compression;
  prop->allocFlags.gpuDirectRDMACapable = p.direct_access;
  prop->allocFlags.usage = p.usage;
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::allocation_retain::request q;
  q.address = reinterpret_cast<std::uint64_t>(addr);
  const auto a = call<msg::allocation_retain>(q);
  if (a.result == CUDA_SUCCESS) *handle = a.body.allocation;
  return a.result;
}

}  // namespace custom
}  // namespace gpuwire::shim
