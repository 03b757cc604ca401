// SPDX-License-Identifier: Apache-2.0
// Managed memory. All memory of this GPU is the host's, so it is device memory that the host may
// touch; advice is remembered, prefetches have nothing to move.
#include <cstring>
#include <map>
#include <mutex>

#include "context.hpp"
#include "device.hpp"
#include "guard.hpp"
#include "memory.hpp"
#include "scheduler.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

constexpr int no_device = CU_DEVICE_INVALID;

// What was said of whole allocations. Advice for a part of one is taken, and not remembered.
struct advice_of_range {
  int read_mostly = 0;
  CUmemLocation preferred{}, prefetched{};
  bool accessed_by_host = false;
  std::map<int, bool> accessed_by;
};

std::mutex advice_mutex;
std::map<std::uint64_t, advice_of_range>& advice_by_buffer() {
  static auto* all = new std::map<std::uint64_t, advice_of_range>;
  return *all;
}

allocation managed_range(CUdeviceptr address, size_t bytes) {
  auto found = memory_table::instance().find(address);
  require(found && found->managed && bytes > 0 && found->contains(address, bytes));
  return *found;
}

void check_device(int ordinal) {
  require(ordinal >= 0 && static_cast<size_t>(ordinal) < devices().size(),
          CUDA_ERROR_INVALID_DEVICE);
}

void check_place(const CUmemLocation& place) {
  require(place.type >= CU_MEM_LOCATION_TYPE_DEVICE &&
          place.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
  if (place.type == CU_MEM_LOCATION_TYPE_DEVICE) check_device(place.id);
}

CUmemLocation place_of(CUdevice device) {
  CUmemLocation place{};
  place.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  place.id = device == CU_DEVICE_CPU ? 0 : device;
  return place;
}

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                const CUmemLocation& place) {
  return with_context([&](context&) {
    const auto range = managed_range(address, bytes);
    const bool whole = address == range.base && bytes == range.bytes;
    std::lock_guard lock(advice_mutex);
    advice_of_range aside;
    auto& said = whole ? advice_by_buffer()[range.buffer_id] : aside;
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY:
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        said.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        return CUDA_SUCCESS;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        check_place(place);
        said.preferred = place;
        return CUDA_SUCCESS;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        said.preferred = {};
        return CUDA_SUCCESS;
      case CU_MEM_ADVISE_SET_ACCESSED_BY:
      case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        check_place(place);
        require(place.type <= CU_MEM_LOCATION_TYPE_HOST);
        if (place.type == CU_MEM_LOCATION_TYPE_HOST)
          said.accessed_by_host = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
        else
          said.accessed_by[place.id] = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

CUresult prefetch(CUdeviceptr address, size_t bytes, const CUmemLocation& place, unsigned flags,
                  CUstream handle) {
  return initialised([&] {
    auto on = stream_of(handle);
    require(flags == 0);
    const auto range = managed_range(address, bytes);
    check_place(place);
    if (address == range.base && bytes == range.bytes) {
      std::lock_guard lock(advice_mutex);
      advice_by_buffer()[range.buffer_id].prefetched = place;
    }
    operation what;
    what.what = operation::kind::work;
    what.run = [] {};
    scheduler::instance().submit(on, std::move(what));
    return CUDA_SUCCESS;
  });
}

int old_name(const CUmemLocation& place) {
  if (place.type == CU_MEM_LOCATION_TYPE_DEVICE) return place.id;
  return place.type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU : no_device;
}

void give(void* out, size_t room, int value) {
  require(room == sizeof value);
  std::memcpy(out, &value, sizeof value);
}

void answer(void* out, size_t room, CUmem_range_attribute attribute, const advice_of_range& said) {
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return give(out, room, said.read_mostly);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return give(out, room, old_name(said.preferred));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return give(out, room, old_name(said.prefetched));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return give(out, room, static_cast<int>(said.preferred.type));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return give(out, room, said.preferred.id);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return give(out, room, static_cast<int>(said.prefetched.type));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return give(out, room, said.prefetched.id);
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
      require(room % sizeof(int) == 0);
      auto* devices = static_cast<int*>(out);
      size_t count = 0;
      const size_t places = room / sizeof(int);
      if (said.accessed_by_host && count < places) devices[count++] = CU_DEVICE_CPU;
      for (const auto& [device, set] : said.accessed_by)
        if (set && count < places) devices[count++] = device;
      while (count < places) devices[count++] = no_device;
      return;
    }
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  return with_context([&](context& current) {
    require(out != nullptr && bytes > 0 &&
            (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST));
    allocation_request request;
    request.bytes = bytes;
    request.context_id = current.id;
    request.managed = true;
    auto made = memory_table::instance().allocate(current.on, request);
    require(made.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
    *out = made->base;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice dev) {
  return advise(address, bytes, advice, place_of(dev));
}
CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                        CUmemLocation place) {
  return advise(address, bytes, advice, place);
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice dev, CUstream handle) {
  return prefetch(address, bytes, place_of(dev), 0, handle);
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation place,
                               unsigned int flags, CUstream handle) {
  return prefetch(address, bytes, place, flags, handle);
}

CUresult cuMemRangeGetAttribute(void* out, size_t room, CUmem_range_attribute attribute,
                                CUdeviceptr address, size_t bytes) {
  return with_context([&](context&) {
    require(out != nullptr && room > 0);
    const auto range = managed_range(address, bytes);
    std::lock_guard lock(advice_mutex);
    answer(out, room, attribute, advice_by_buffer()[range.buffer_id]);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRangeGetAttributes(void** out, size_t* rooms, CUmem_range_attribute* attributes,
                                 size_t count, CUdeviceptr address, size_t bytes) {
  return with_context([&](context&) {
    require(out != nullptr && rooms != nullptr && attributes != nullptr && count > 0);
    const auto range = managed_range(address, bytes);
    std::lock_guard lock(advice_mutex);
    for (size_t at = 0; at < count; ++at) {
      require(out[at] != nullptr);
      answer(out[at], rooms[at], attributes[at], advice_by_buffer()[range.buffer_id]);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t bytes,
                                unsigned int flags) {
  return initialised([&] {
    auto on = stream_of(handle);
    auto found = memory_table::instance().find(address);
    require(found && found->managed && found->base == address &&
            (bytes == 0 || bytes == found->bytes));
    require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
            flags == CU_MEM_ATTACH_SINGLE);
    require(flags != CU_MEM_ATTACH_SINGLE || (handle != nullptr && handle != CU_STREAM_LEGACY));
    return CUDA_SUCCESS;
  });
}
