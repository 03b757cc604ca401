// SPDX-License-Identifier: Apache-2.0
// Locations and access descriptions from the wire, as the driver wants them.
#pragma once

#include <cuda.h>

#include <optional>
#include <vector>

#include "wire/generated/messages_structs.hpp"

namespace gpuwire::daemon {

// Nothing: the client gave none.
template <class List>
std::optional<CUmemLocation> location_from(const List& list) {
  if (list.size() != 1) return std::nullopt;
  CUmemLocation l{};
  l.type = static_cast<CUmemLocationType>(list.front().type);
  l.id = list.front().id;
  return l;
}

template <class List>
std::vector<CUmemAccessDesc> access_from(const List& list) {
  std::vector<CUmemAccessDesc> all;
  for (const auto& d : list) {
    CUmemAccessDesc a{};
    a.location.type = static_cast<CUmemLocationType>(d.type);
    a.location.id = d.id;
    a.flags = static_cast<CUmemAccess_flags>(d.flags);
    all.push_back(a);
  }
  return all;
}

// Whether memory would lie on this host, where the client could not reach it.
inline bool is_on_host(const CUmemLocation& l) {
  return l.type == CU_MEM_LOCATION_TYPE_HOST || l.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         l.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

}  // namespace gpuwire::daemon
