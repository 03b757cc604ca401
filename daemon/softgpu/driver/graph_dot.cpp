// SPDX-License-Identifier: Apache-2.0
// A graph as text for graphviz.
#include <cinttypes>
#include <cstdio>

#include "graph.hpp"

using namespace gpuwire::softgpu;

namespace {

constexpr unsigned flags_known = (CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS << 1) - 1;

struct drawing {
  std::FILE* to;
  unsigned flags;
  bool wants(unsigned flag) const {
    return (flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) != 0;
  }
};

const char* type_name(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "WAIT_EVENT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "BATCH_MEM_OP";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "CONDITIONAL";
    default:
      return "UNKNOWN";
  }
}

struct node_style {
  const char* style;
  const char* shape;
};
node_style style_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return {"bold", "octagon"};
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return {"solid", "trapezium"};
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return {"solid", "invtrapezium"};
    default:
      return {"solid", "rectangle"};
  }
}

void describe(const drawing& in, const graph_node& node) {
  if (const auto* kernel = std::get_if<kernel_payload>(&node.payload)) {
    std::fprintf(in.to, "%s\\n", kernel->launch.which->info().name.c_str());
    if (!in.wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS)) return;
    const auto& shape = kernel->launch.shape;
    std::fprintf(in.to, "grid %u,%u,%u block %u,%u,%u shared %u\\n", shape.grid.x, shape.grid.y,
                 shape.grid.z, shape.block.x, shape.block.y, shape.block.z,
                 shape.dynamic_shared_bytes);
    return;
  }
  std::fprintf(in.to, "%s\\n", type_name(node.type()));
  if (const auto* fill = std::get_if<memset_payload>(&node.payload)) {
    const auto& p = fill->parameters;
    std::fprintf(in.to, "(%u,%zu)\\n", p.value, p.width * p.elementSize * p.height);
  } else if (const auto* copy = std::get_if<memcpy_payload>(&node.payload)) {
    const auto& p = copy->parameters;
    std::fprintf(in.to, "(%zu)\\n", p.WidthInBytes * p.Height * p.Depth);
  }
}

void draw(const drawing& in, const graph& which) {
  std::fprintf(in.to,
               "subgraph cluster_%" PRIu64 " {\nlabel=\"graph_%" PRIu64
               "\" graph[style=\"dashed\"];\n",
               which.id, which.id);
  for (const auto& node : which.nodes) {
    const auto [style, shape] = style_of(node->type());
    std::fprintf(in.to, "\"node_%" PRIu64 "\"[style=\"%s\" shape=\"%s\" label=\"%" PRIu64 "\\n",
                 node->id, style, shape, node->id);
    describe(in, *node);
    if (in.wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
      std::fprintf(in.to, "node handle: %p\\n", static_cast<void*>(node->handle));
    std::fprintf(in.to, "\"];\n");
  }
  for (const auto& node : which.nodes) {
    for (const auto& edge : node->dependents) {
      std::fprintf(in.to, "\"node_%" PRIu64 "\" -> \"node_%" PRIu64 "\"", node->id, edge.other->id);
      if (in.wants(CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO))
        std::fprintf(in.to, " [headlabel=%u]", edge.data.from_port);
      std::fprintf(in.to, ";\n");
    }
  }
  for (const auto& node : which.nodes)
    for_each_inner_graph(*node, [&](const graph& inner) { draw(in, inner); });
  std::fprintf(in.to, "}\n");
}

}  // namespace

CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned int flags) {
  return with_graphs([&] {
    auto which = graph_of(handle);
    require(path != nullptr && (flags & ~flags_known) == 0);
    std::FILE* file = std::fopen(path, "we");
    require(file != nullptr, CUDA_ERROR_OPERATING_SYSTEM);
    std::fprintf(file, "digraph dot {\n");
    draw({file, flags}, *which);
    std::fprintf(file, "}\n");
    require(std::fclose(file) == 0, CUDA_ERROR_OPERATING_SYSTEM);
    return CUDA_SUCCESS;
  });
}
