// SPDX-License-Identifier: Apache-2.0
// Graphs as a whole, their nodes and edges: making, copying, listing, destroying.
#include <algorithm>

#include "graph.hpp"

using namespace gpuwire::softgpu;

namespace {

// A list as the API gives it: without an array its size is asked for; else as much as the array
// holds, the rest of which becomes null.
template <typename Item>
struct out_list {
  Item* items;
  std::size_t room;
  void set(std::size_t at, const Item& value) const {
    if (items != nullptr && at < room) items[at] = value;
  }
  void end(std::size_t count) const {
    for (std::size_t at = count; items != nullptr && at < room; ++at) items[at] = Item{};
  }
};

CUresult list_nodes(const std::vector<CUgraphNode>& all, CUgraphNode* nodes, std::size_t* count) {
  require(count != nullptr);
  const out_list<CUgraphNode> out{nodes, *count};
  for (std::size_t at = 0; at < all.size(); ++at) out.set(at, all[at]);
  out.end(all.size());
  *count = nodes == nullptr ? all.size() : std::min(*count, all.size());
  return CUDA_SUCCESS;
}

CUresult list_edges(const std::vector<graph_edge>& all, CUgraphNode* nodes, CUgraphEdgeData* data,
                    std::size_t* count) {
  require(count != nullptr && (data == nullptr || nodes != nullptr));
  const std::size_t shown = nodes == nullptr ? 0 : std::min(*count, all.size());
  for (std::size_t at = 0; at < shown; ++at)
    require(data != nullptr || !has_edge_data(all[at].data), CUDA_ERROR_LOSSY_QUERY);
  const out_list<CUgraphNode> out{nodes, *count};
  const out_list<CUgraphEdgeData> out_data{data, *count};
  for (std::size_t at = 0; at < all.size(); ++at) {
    out.set(at, all[at].other->handle);
    out_data.set(at, all[at].data);
  }
  out.end(all.size());
  out_data.end(all.size());
  *count = nodes == nullptr ? all.size() : shown;
  return CUDA_SUCCESS;
}

struct full_edge {
  CUgraphNode from;
  CUgraphNode to;
  CUgraphEdgeData data;
};

CUresult get_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                   std::size_t* count) {
  return with_graphs([&] {
    auto which = graph_of(handle);
    require(count != nullptr && (from == nullptr) == (to == nullptr));
    require(data == nullptr || from != nullptr);
    std::vector<full_edge> all;
    for (const auto& node : which->nodes) {
      for (const auto& edge : node->dependents)
        all.push_back({node->handle, edge.other->handle, edge.data});
    }
    const std::size_t shown = from == nullptr ? 0 : std::min(*count, all.size());
    for (std::size_t at = 0; at < shown; ++at)
      require(data != nullptr || !has_edge_data(all[at].data), CUDA_ERROR_LOSSY_QUERY);
    const out_list<CUgraphNode> out_from{from, *count}, out_to{to, *count};
    const out_list<CUgraphEdgeData> out_data{data, *count};
    for (std::size_t at = 0; at < shown; ++at) {
      out_from.set(at, all[at].from);
      out_to.set(at, all[at].to);
      out_data.set(at, all[at].data);
    }
    out_from.end(all.size());
    out_to.end(all.size());
    out_data.end(all.size());
    *count = from == nullptr ? all.size() : shown;
    return CUDA_SUCCESS;
  });
}

CUresult get_dependencies(CUgraphNode handle, CUgraphNode* nodes, CUgraphEdgeData* data,
                          std::size_t* count) {
  return with_graphs([&] { return list_edges(node_of(handle)->dependencies, nodes, data, count); });
}

CUresult get_dependents(CUgraphNode handle, CUgraphNode* nodes, CUgraphEdgeData* data,
                        std::size_t* count) {
  return with_graphs([&] { return list_edges(node_of(handle)->dependents, nodes, data, count); });
}

struct node_pair {
  std::shared_ptr<graph_node> from;
  std::shared_ptr<graph_node> to;
};

std::vector<node_pair> pairs_of(const graph& in, const CUgraphNode* from, const CUgraphNode* to,
                                std::size_t count) {
  require(count == 0 || (from != nullptr && to != nullptr));
  std::vector<node_pair> made;
  for (std::size_t at = 0; at < count; ++at) {
    made.push_back({node_of(from[at]), node_of(to[at])});
    require(made.back().from->in == &in && made.back().to->in == &in);
  }
  return made;
}

// All or none of the edges.
CUresult add_dependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                          const CUgraphEdgeData* data, std::size_t count) {
  return with_graphs([&] {
    const auto pairs = pairs_of(*graph_of(handle), from, to, count);
    std::size_t done = 0;
    try {
      for (; done < count; ++done)
        add_edge(*pairs[done].from, *pairs[done].to,
                 data == nullptr ? CUgraphEdgeData{} : data[done]);
    } catch (const refusal&) {
      while (done-- > 0) remove_edge(*pairs[done].from, *pairs[done].to);
      throw;
    }
    return CUDA_SUCCESS;
  });
}

// Which data the edge has makes no difference, as natively.
CUresult remove_dependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                             std::size_t count) {
  return with_graphs([&] {
    auto which = graph_of(handle);
    const auto pairs = pairs_of(*which, from, to, count);
    require(!has_memory_nodes(*which), CUDA_ERROR_NOT_SUPPORTED);
    for (const auto& [first, second] : pairs) require(remove_edge(*first, *second));
    return CUDA_SUCCESS;
  });
}

bool in_capture(const graph& which) {
  return which.captures != 0 ||
         std::any_of(which.nodes.begin(), which.nodes.end(), [](const auto& node) {
           bool found = false;
           for_each_inner_graph(*node,
                                [&](const graph& inner) { found = found || in_capture(inner); });
           return found;
         });
}

}  // namespace

CUresult cuGraphCreate(CUgraph* out, unsigned int flags) {
  return with_graphs([&] {
    require(out != nullptr && flags == 0);
    *out = make_graph()->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph handle) {
  return with_graphs([&] {
    auto which = graph_of(handle);
    require(!which->is_inner);
    require(!in_capture(*which), CUDA_ERROR_ILLEGAL_STATE);
    forget_graph(*which);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphClone(CUgraph* out, CUgraph handle) {
  return with_graphs([&] {
    require(out != nullptr);
    *out = copy_graph(*graph_of(handle), copy_purpose::clone)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  return with_graphs([&] {
    require(out != nullptr);
    const auto node = node_of(original);
    auto in = graph_of(clone);
    require(in->copied_from == node->in->id);
    auto found = std::find_if(in->nodes.begin(), in->nodes.end(),
                              [&](const auto& one) { return one->copied_from == node->id; });
    require(found != in->nodes.end());
    *out = (*found)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  return with_graphs([&] {
    require(type != nullptr);
    *type = node_of(handle)->type();
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return with_graphs([&] {
    std::vector<CUgraphNode> all;
    for (const auto& node : graph_of(handle)->nodes) all.push_back(node->handle);
    return list_nodes(all, nodes, count);
  });
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return with_graphs([&] {
    std::vector<CUgraphNode> all;
    for (const auto& node : graph_of(handle)->nodes) {
      if (node->dependencies.empty()) all.push_back(node->handle);
    }
    return list_nodes(all, nodes, count);
  });
}

CUresult cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return get_edges(handle, from, to, nullptr, count);
}
CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* data, size_t* count) {
  return get_edges(handle, from, to, data, count);
}
CUresult cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode* nodes, size_t* count) {
  return get_dependencies(handle, nodes, nullptr, count);
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* nodes,
                                       CUgraphEdgeData* data, size_t* count) {
  return get_dependencies(handle, nodes, data, count);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode* nodes, size_t* count) {
  return get_dependents(handle, nodes, nullptr, count);
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode* nodes,
                                         CUgraphEdgeData* data, size_t* count) {
  return get_dependents(handle, nodes, data, count);
}

CUresult cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                size_t count) {
  return add_dependencies(handle, from, to, nullptr, count);
}
CUresult cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, size_t count) {
  return add_dependencies(handle, from, to, data, count);
}
CUresult cuGraphRemoveDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t count) {
  return remove_dependencies(handle, from, to, count);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph handle, const CUgraphNode* from,
                                      const CUgraphNode* to, const CUgraphEdgeData*, size_t count) {
  return remove_dependencies(handle, from, to, count);
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  return with_graphs([&] {
    auto which = node_of(handle);
    require(!has_memory_nodes(*which->in), CUDA_ERROR_NOT_SUPPORTED);
    bool captured = which->in->captures != 0;
    for_each_inner_graph(*which,
                         [&](const graph& inner) { captured = captured || in_capture(inner); });
    require(!captured, CUDA_ERROR_ILLEGAL_STATE);
    remove_node(*which);
    return CUDA_SUCCESS;
  });
}
