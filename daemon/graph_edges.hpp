// SPDX-License-Identifier: Apache-2.0
// Lists of handles and of edge annotations between wire and driver. An annotation travels as three
// bytes: outgoing port, incoming port, type; the reserved ones stay zero.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/call_context.hpp"

namespace gpuwire::daemon {

template <handle_kind Kind>
std::vector<typename native_type<Kind>::type> natives_of(
    call_context& c, const wire::array_view<std::uint64_t>& ids) {
  std::vector<typename native_type<Kind>::type> natives;
  natives.reserve(ids.size);
  for (const auto id : ids) natives.push_back(c.native<Kind>(id));
  return natives;
}

// No bytes at all mean no annotations. False: not three for each edge.
inline bool decode_edges(const wire::array_view<std::uint8_t>& bytes, std::size_t count,
                         std::vector<CUgraphEdgeData>& out) {
  if (bytes.empty()) return true;
  if (bytes.size != count * 3) return false;
  out.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = {};
    out[i].from_port = bytes[i * 3];
    out[i].to_port = bytes[i * 3 + 1];
    out[i].type = bytes[i * 3 + 2];
  }
  return true;
}

inline void encode_edges(std::span<const CUgraphEdgeData> edges, std::vector<std::uint8_t>& out) {
  for (const auto& e : edges) out.insert(out.end(), {e.from_port, e.to_port, e.type});
}

}  // namespace gpuwire::daemon
