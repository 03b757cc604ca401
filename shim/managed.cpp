// SPDX-License-Identifier: Apache-2.0
// Managed memory: allocated by the server's driver, at whose address this process has the same
// memory (direct_memory.hpp). Advice and prefetches are the server's to act on.
#include <array>
#include <cstring>
#include <string>

#include "shim/devices.hpp"
#include "shim/direct_memory.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/images.hpp"
#include "shim/log.hpp"
#include "shim/memory.hpp"

namespace gpuwire::shim {
namespace {

constexpr int placement_tries = 8;

bool managed_memory_is_there() {
  const context_record* c = self().current();
  const device_record* device = c != nullptr ? find_device(c->device) : nullptr;
  return device != nullptr && device->attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) != 0;
}

// A place as the program names it -> as the server does.
CUresult on_server(CUmemLocation& place) {
  if (place.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_SUCCESS;
  if (find_device(place.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  place.id = device_ordinal(place.id);
  return CUDA_SUCCESS;
}

CUmemLocation place_of_device(CUdevice device) {
  CUmemLocation place{};
  place.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  place.id = device == CU_DEVICE_CPU ? 0 : device;
  return place;
}

CUresult check_managed(CUdeviceptr address, std::size_t bytes) {
  const auto range = state().memory.find(address);
  const bool known = range && range->value.kind == memory_kind::managed && bytes != 0 &&
                     range->contains(address, bytes);
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult advise(CUdeviceptr address, std::size_t bytes, CUmem_advise advice, CUmemLocation place) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (const CUresult r = check_managed(address, bytes); r != CUDA_SUCCESS) return r;
  const bool names_place = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                           advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                           advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  if (!names_place) place = {};
  if (const CUresult r = on_server(place); names_place && r != CUDA_SUCCESS) return r;
  msg::managed_advise::request q;
  q.address = address;
  q.bytes = bytes;
  q.advice = static_cast<std::int32_t>(advice);
  q.location_type = static_cast<std::int32_t>(place.type);
  q.location_id = place.id;
  return call<msg::managed_advise>(q).result;
}

CUresult prefetch(CUdeviceptr address, std::size_t bytes, CUmemLocation place, unsigned flags,
                  CUstream stream) {
  const auto target = find_stream(stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (const CUresult r = check_managed(address, bytes); r != CUDA_SUCCESS) return r;
  if (const CUresult r = on_server(place); r != CUDA_SUCCESS) return r;
  msg::managed_prefetch::request q;
  q.address = address;
  q.bytes = bytes;
  q.location_type = static_cast<std::int32_t>(place.type);
  q.location_id = place.id;
  q.flags = flags;
  q.stream = target.id;
  return call_operation<msg::managed_prefetch>(*target.credit, 0, q).result;
}

// Devices in an answer are the server's.
std::int32_t device_here(std::int32_t server_ordinal) {
  const auto& devices = state().devices;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].server_ordinal == server_ordinal) return static_cast<std::int32_t>(i);
  return server_ordinal < 0 ? server_ordinal : CU_DEVICE_INVALID;
}

bool answers_with_devices(CUmem_range_attribute attribute) {
  return attribute == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION ||
         attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY ||
         attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
}

CUresult range_attribute(void* data, std::size_t bytes, CUmem_range_attribute attribute,
                         CUdeviceptr address, std::size_t count) {
  if (data == nullptr || bytes == 0 || bytes % 4 != 0 || bytes > 4096)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_managed(address, count); r != CUDA_SUCCESS) return r;
  msg::managed_attribute::request q;
  q.address = address;
  q.bytes = count;
  q.attribute = static_cast<std::int32_t>(attribute);
  q.bytes_wanted = static_cast<std::uint32_t>(bytes);
  const auto a = call<msg::managed_attribute>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (a.body.data.size != bytes) {
    detail::reply_is_malformed("managed_attribute");
    return CUDA_ERROR_UNKNOWN;
  }
  std::memcpy(data, a.body.data.data, bytes);
  if (!answers_with_devices(attribute)) return CUDA_SUCCESS;
  auto* devices = static_cast<std::int32_t*>(data);
  for (std::size_t i = 0; i < bytes / 4; ++i) devices[i] = device_here(devices[i]);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult find_variable(bool library, std::uint64_t image, const char* name, CUdeviceptr& address,
                       std::size_t& bytes) {
  msg::variable_find::request q;
  q.kind = library ? 1 : 0;
  q.image = image;
  q.name = name;
  const auto a = cached_call<msg::variable_find>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  address = a.body.address;
  bytes = a.body.bytes;
  if (!a.body.managed) {
    learn_global(address, bytes, image);
    return library ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
  }
  const auto known = state().memory.find(address);
  if (known && known->value.kind == memory_kind::managed) return CUDA_SUCCESS;
  if (!keep_managed(address, bytes, image)) {
    log_debug("the address {:#x} of the managed variable {} is in use in this process", address,
              name);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // Its first value.
  return call<msg::direct_refresh>({}).result;
}

namespace custom {

CUresult cuMemAllocManaged(CUdeviceptr* dptr, std::size_t bytesize, unsigned int flags) {
  if (dptr == nullptr || bytesize == 0 ||
      (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (!managed_memory_is_there()) return CUDA_ERROR_NOT_SUPPORTED;
  msg::managed_allocate::request q;
  q.bytes = bytesize;
  q.flags = flags;
  for (int i = 0; i < placement_tries; ++i) {
    const auto a = call<msg::managed_allocate>(q);
    if (a.result != CUDA_SUCCESS) return a.result;
    if (keep_managed(a.body.address, bytesize, 0)) {
      *dptr = a.body.address;
      return CUDA_SUCCESS;
    }
    log_debug("the server's address {:#x} ({} bytes) is in use in this process, asking for another",
              a.body.address, bytesize);
    q.replaces = a.body.address;
  }
  msg::memory_free::request release;
  release.address = q.replaces;
  const CUresult released = call<msg::memory_free>(release).result;
  write_line("no managed address of the server is free in this process; the allocation fails");
  return released == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : released;
}

CUresult cuLibraryGetManaged(CUdeviceptr* dptr, std::size_t* bytes, CUlibrary library,
                             const char* name) {
  if (name == nullptr || (dptr == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (find_library(library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUdeviceptr address = 0;
  std::size_t size = 0;
  const CUresult r = find_variable(true, id_of(library), name, address, size);
  if (r != CUDA_SUCCESS) return r;
  if (dptr != nullptr) *dptr = address;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, std::size_t count, CUmem_advise advice, CUdevice device) {
  return advise(devPtr, count, advice, place_of_device(device));
}
CUresult cuMemAdvise_v2(CUdeviceptr devPtr, std::size_t count, CUmem_advise advice,
                        CUmemLocation location) {
  const auto number = static_cast<unsigned>(advice);
  if (number < CU_MEM_ADVISE_SET_READ_MOSTLY || number > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
    return CUDA_ERROR_INVALID_VALUE;
  return advise(devPtr, count, advice, location);
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, std::size_t count, CUdevice dstDevice,
                            CUstream hStream) {
  return prefetch(devPtr, count, place_of_device(dstDevice), 0, hStream);
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, std::size_t count, CUmemLocation location,
                               unsigned int flags, CUstream hStream) {
  const auto type = static_cast<unsigned>(location.type);
  if (flags != 0 || type < CU_MEM_LOCATION_TYPE_DEVICE ||
      type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
    return CUDA_ERROR_INVALID_VALUE;
  return prefetch(devPtr, count, location, flags, hStream);
}

CUresult cuMemRangeGetAttribute(void* data, std::size_t dataSize, CUmem_range_attribute attribute,
                                CUdeviceptr devPtr, std::size_t count) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  return range_attribute(data, dataSize, attribute, devPtr, count);
}
CUresult cuMemRangeGetAttributes(void** data, std::size_t* dataSizes,
                                 CUmem_range_attribute* attributes, std::size_t numAttributes,
                                 CUdeviceptr devPtr, std::size_t count) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (data == nullptr || dataSizes == nullptr || attributes == nullptr || numAttributes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < numAttributes; ++i) {
    const CUresult r = range_attribute(data[i], dataSizes[i], attributes[i], devPtr, count);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, std::size_t length,
                                unsigned int flags) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  const auto range = state().memory.find(dptr);
  if (!range || range->value.kind != memory_kind::managed || range->base != dptr ||
      (length != 0 && length != range->bytes))
    return CUDA_ERROR_INVALID_VALUE;
  msg::managed_attach::request q;
  q.stream = target.id;
  q.address = dptr;
  q.bytes = length;
  q.flags = flags;
  return call_operation<msg::managed_attach>(*target.credit, 0, q).result;
}

}  // namespace custom
}  // namespace gpuwire::shim
