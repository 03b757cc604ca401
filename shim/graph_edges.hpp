// SPDX-License-Identifier: Apache-2.0
// Lists of nodes and of edge annotations between the program and the wire. An annotation travels as
// three bytes: outgoing port, incoming port, type.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "shim/entry.hpp"

namespace gpuwire::shim {

// No graph has more edges into one node, and no message room for them.
inline constexpr std::size_t graph_list_max = 1u << 17;

class node_list {
 public:
  // False: a list without a beginning, too long a one, or an annotation with reserved bytes that
  // are not zero.
  bool take(const CUgraphNode* nodes, const CUgraphEdgeData* edges, std::size_t count) {
    if (count == 0) return true;
    if (nodes == nullptr || count > graph_list_max) return false;
    for (std::size_t i = 0; i < count; ++i) nodes_.push_back(id_of(nodes[i]));
    if (edges == nullptr) return true;
    for (std::size_t i = 0; i < count; ++i) {
      for (const auto byte : edges[i].reserved)
        if (byte != 0) return false;
      edges_.insert(edges_.end(), {edges[i].from_port, edges[i].to_port, edges[i].type});
    }
    return true;
  }
  wire::array_view<std::uint64_t> nodes() const {
    return {nodes_.data(), static_cast<std::uint32_t>(nodes_.size())};
  }
  wire::array_view<std::uint8_t> edges() const {
    return {edges_.data(), static_cast<std::uint32_t>(edges_.size())};
  }

 private:
  std::vector<std::uint64_t> nodes_;
  std::vector<std::uint8_t> edges_;
};

// Missing annotations are those of ordinary edges.
inline void decode_edges(const wire::array_view<std::uint8_t>& bytes, std::size_t count,
                         std::vector<CUgraphEdgeData>& out) {
  out.assign(count, CUgraphEdgeData{});
  if (bytes.size != count * 3) return;
  for (std::size_t i = 0; i < count; ++i) {
    out[i].from_port = bytes[i * 3];
    out[i].to_port = bytes[i * 3 + 1];
    out[i].type = bytes[i * 3 + 2];
  }
}

}  // namespace gpuwire::shim
