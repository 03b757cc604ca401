// SPDX-License-Identifier: Apache-2.0
// How the nodes of a graph hang together, copies of whole graphs in the sense of the driver, and
// what it prints of one.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/graph_edges.hpp"
#include "shim/graph_memory.hpp"
#include "shim/graphs.hpp"

namespace gpuwire::shim {
namespace {

enum class edges_of : std::uint8_t { graph = 0, into_node = 1, out_of_node = 2 };

struct edge_arrays {
  CUgraphNode *from = nullptr, *to = nullptr;
  CUgraphEdgeData* data = nullptr;
  std::size_t* count = nullptr;
};

void fill(CUgraphNode* out, std::size_t room, const wire::array_view<std::uint64_t>& ids) {
  if (out == nullptr) return;
  for (std::size_t i = 0; i < room; ++i)
    out[i] = i < ids.size ? handle_from<CUgraphNode>(ids[i]) : nullptr;
}

// As everywhere in this family: without arrays only the number, else at most as many as the program
// has room for, and null in the places that are left.
CUresult edges(std::uint64_t handle, edges_of of, const edge_arrays& out, bool lists) {
  if (handle == 0 || out.count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!lists && out.data != nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_edges::request q;
  q.handle = handle;
  q.of = static_cast<std::uint8_t>(of);
  q.lists_wanted = lists;
  q.data_wanted = out.data != nullptr;
  const auto a = call<msg::graph_edges>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (!lists) {
    *out.count = a.body.count;
    return CUDA_SUCCESS;
  }
  const auto room = *out.count;
  fill(out.from, room, a.body.from);
  fill(out.to, room, a.body.to);
  if (out.data != nullptr) {
    std::vector<CUgraphEdgeData> data;
    decode_edges(a.body.edges, a.body.count, data);
    for (std::size_t i = 0; i < room; ++i)
      out.data[i] = i < data.size() ? data[i] : CUgraphEdgeData{};
  }
  *out.count = std::min<std::size_t>(room, a.body.count);
  return CUDA_SUCCESS;
}

CUresult edges_of_graph(CUgraph graph, const edge_arrays& out) {
  if ((out.from == nullptr) != (out.to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return edges(id_of(graph), edges_of::graph, out, out.from != nullptr);
}

CUresult connect(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                 const CUgraphEdgeData* data, std::size_t count, bool remove) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  node_list begins, ends;
  if (!begins.take(from, data, count) || !ends.take(to, nullptr, count))
    return CUDA_ERROR_INVALID_VALUE;
  msg::graph_connect::request q;
  q.graph = id_of(graph);
  q.remove = remove;
  q.from = begins.nodes();
  q.to = ends.nodes();
  q.edges = begins.edges();
  return call<msg::graph_connect>(q).result;
}

struct update_answer {
  CUresult result = CUDA_SUCCESS;
  CUgraphExecUpdateResult detail = CU_GRAPH_EXEC_UPDATE_ERROR;
  CUgraphNode error_node = nullptr, error_from_node = nullptr;
};

update_answer update(CUgraphExec exec, CUgraph graph) {
  update_answer out;
  exec_record* record = find_exec(exec);
  if (record == nullptr || graph == nullptr) {
    out.result = CUDA_ERROR_INVALID_VALUE;
    return out;
  }
  msg::graph_exec_update::request q;
  q.exec = id_of(exec);
  q.graph = id_of(graph);
  const auto a = call<msg::graph_exec_update>(q);
  out.result = a.result;
  out.detail = static_cast<CUgraphExecUpdateResult>(a.body.detail);
  out.error_node = handle_from<CUgraphNode>(a.body.error_node);
  out.error_from_node = handle_from<CUgraphNode>(a.body.error_from_node);
  if (a.result == CUDA_SUCCESS) {
    record->watched = a.body.watched;
    take_boxes(*record, a.body.boxes);
  }
  return out;
}

// The file is the program's, so it is written here.
bool write_file(const char* path, const wire::bytes_view& text) {
  const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return false;
  std::size_t written = 0;
  while (written < text.size) {
    const auto n =
        ::write(file, text.data + written, static_cast<std::size_t>(text.size) - written);
    if (n <= 0) break;
    written += static_cast<std::size_t>(n);
  }
  return ::close(file) == 0 && written == text.size;
}

}  // namespace

namespace custom {

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                         std::size_t* numEdges) {
  return edges_of_graph(hGraph, {from, to, nullptr, numEdges});
}
CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* edgeData, std::size_t* numEdges) {
  return edges_of_graph(hGraph, {from, to, edgeData, numEdges});
}
CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies,
                                    std::size_t* numDependencies) {
  return edges(id_of(hNode), edges_of::into_node, {dependencies, nullptr, nullptr, numDependencies},
               dependencies != nullptr);
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies,
                                       CUgraphEdgeData* edgeData, std::size_t* numDependencies) {
  return edges(id_of(hNode), edges_of::into_node,
               {dependencies, nullptr, edgeData, numDependencies}, dependencies != nullptr);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                      std::size_t* numDependentNodes) {
  return edges(id_of(hNode), edges_of::out_of_node,
               {nullptr, dependentNodes, nullptr, numDependentNodes}, dependentNodes != nullptr);
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                         CUgraphEdgeData* edgeData,
                                         std::size_t* numDependentNodes) {
  return edges(id_of(hNode), edges_of::out_of_node,
               {nullptr, dependentNodes, edgeData, numDependentNodes}, dependentNodes != nullptr);
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                std::size_t numDependencies) {
  return connect(hGraph, from, to, nullptr, numDependencies, false);
}
CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edgeData, std::size_t numDependencies) {
  return connect(hGraph, from, to, edgeData, numDependencies, false);
}
CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                   std::size_t numDependencies) {
  return connect(hGraph, from, to, nullptr, numDependencies, true);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from,
                                      const CUgraphNode* to, const CUgraphEdgeData* edgeData,
                                      std::size_t numDependencies) {
  return connect(hGraph, from, to, edgeData, numDependencies, true);
}

CUresult cuGraphDestroyNode(CUgraphNode hNode) {
  if (hNode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_node_destroy::request q;
  q.node = id_of(hNode);
  forget_node_values(hNode);
  return call<msg::graph_node_destroy>(q).result;
}

CUresult cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode,
                                CUgraph hClonedGraph) {
  if (phNode == nullptr || hOriginalNode == nullptr || hClonedGraph == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  msg::graph_find_in_clone::request q;
  q.node = id_of(hOriginalNode);
  q.clone = id_of(hClonedGraph);
  const auto a = call<msg::graph_find_in_clone>(q);
  if (a.result == CUDA_SUCCESS) *phNode = handle_from<CUgraphNode>(a.body.found);
  return a.result;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                           CUgraphExecUpdateResult* updateResult_out) {
  if (updateResult_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto a = update(hGraphExec, hGraph);
  if (hErrorNode_out != nullptr) *hErrorNode_out = a.error_node;
  *updateResult_out = a.detail;
  return a.result;
}
CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo* resultInfo) {
  if (resultInfo == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto a = update(hGraphExec, hGraph);
  resultInfo->result = a.detail;
  resultInfo->errorNode = a.error_node;
  resultInfo->errorFromNode = a.error_from_node;
  return a.result;
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
  if (hGraph == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_dot::request q;
  q.graph = id_of(hGraph);
  q.flags = flags;
  const auto a = call<msg::graph_dot>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  return write_file(path, a.body.text) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace custom
}  // namespace gpuwire::shim
