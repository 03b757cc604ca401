// SPDX-License-Identifier: Apache-2.0
// Locations of memory as the wire carries them: devices by the server's numbers, which are not the
// program's.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "shim/entry.hpp"

namespace gpuwire::shim {

// Descriptions of one call; more than any host has devices.
inline constexpr std::size_t access_descriptions_max = 1024;

// Memory of the server's host is out of this process's reach, so what would live there is not
// supported.
inline CUresult check_location(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_SUCCESS;
  }
}

inline int server_location(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? device_ordinal(location.id) : location.id;
}

// A list of one; empty for null.
template <class List>
void put_location(List& list, const CUmemLocation* location) {
  if (location == nullptr) return;
  list.resize(1);
  list[0].type = static_cast<std::uint32_t>(location->type);
  list[0].id = server_location(*location);
}

template <class List>
CUresult put_access(List& list, const CUmemAccessDesc* descriptions, std::size_t count) {
  list.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& d = descriptions[i];
    if (const CUresult r = check_location(d.location); r != CUDA_SUCCESS) return r;
    list[i].type = static_cast<std::uint32_t>(d.location.type);
    list[i].id = server_location(d.location);
    list[i].flags = static_cast<std::uint32_t>(d.flags);
  }
  return CUDA_SUCCESS;
}

}  // namespace gpuwire::shim
