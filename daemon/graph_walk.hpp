// SPDX-License-Identifier: Apache-2.0
// Looking through the nodes of a graph and of the child graphs in it.
#pragma once

#include <cuda.h>

#include <vector>

#include "daemon/generated/driver_table.hpp"

namespace gpuwire::daemon {

// Calls visit(node, type) for every node, children included.
template <class Visit>
void walk_graph(const driver_table& d, CUgraph graph, const Visit& visit) {
  if (d.cuGraphGetNodes == nullptr || d.cuGraphNodeGetType == nullptr) return;
  std::vector<CUgraph> graphs{graph};
  while (!graphs.empty()) {
    const auto next = graphs.back();
    graphs.pop_back();
    std::size_t count = 0;
    if (d.cuGraphGetNodes(next, nullptr, &count) != CUDA_SUCCESS || count == 0) continue;
    std::vector<CUgraphNode> nodes(count);
    if (d.cuGraphGetNodes(next, nodes.data(), &count) != CUDA_SUCCESS) continue;
    for (const auto node : nodes) {
      auto type = CU_GRAPH_NODE_TYPE_EMPTY;
      if (node == nullptr || d.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) continue;
      visit(node, type);
      CUgraph inner = nullptr;
      if (type == CU_GRAPH_NODE_TYPE_GRAPH && d.cuGraphChildGraphNodeGetGraph != nullptr &&
          d.cuGraphChildGraphNodeGetGraph(node, &inner) == CUDA_SUCCESS && inner != nullptr)
        graphs.push_back(inner);
    }
  }
}

inline bool holds_memory_nodes(const driver_table& d, CUgraph graph) {
  bool found = false;
  walk_graph(d, graph, [&](CUgraphNode, CUgraphNodeType type) {
    found = found || type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
  });
  return found;
}

}  // namespace gpuwire::daemon
