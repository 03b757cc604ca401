// SPDX-License-Identifier: Apache-2.0
#include "shim/graphs.hpp"

#include <algorithm>
#include <cstring>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/graph_memory.hpp"
#include "wire/generated/call_table.hpp"

namespace gpuwire::shim {

exec_record* find_exec(CUgraphExec exec) {
  const auto id = id_of(exec);
  if (wire::handle_kind_of(id) != static_cast<std::uint8_t>(msg::handle_kind::graph_exec))
    return nullptr;
  exec_record* e = state().execs.find(wire::handle_index(id));
  return e != nullptr && e->id.load(std::memory_order_acquire) == id ? e : nullptr;
}

namespace {

answer<msg::graph_instantiate> instantiate(CUgraphExec* exec,
                                           const msg::graph_instantiate::request& q) {
  auto a = call<msg::graph_instantiate>(q);
  if (a.result != CUDA_SUCCESS) return a;
  exec_record* record = state().execs.make(wire::handle_index(a.body.exec));
  if (record == nullptr) {
    a.result = CUDA_ERROR_OUT_OF_MEMORY;
    return a;
  }
  record->watched = a.body.watched;
  take_boxes(*record, a.body.boxes);
  record->id.store(a.body.exec, std::memory_order_release);
  *exec = handle_from<CUgraphExec>(a.body.exec);
  return a;
}

CUresult instantiate_with_log(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                              std::size_t log_bytes, std::uint8_t revision) {
  if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_instantiate::request q;
  q.graph = id_of(graph);
  q.revision = revision;
  if (log != nullptr)
    q.log_bytes = static_cast<std::uint32_t>(std::min<std::size_t>(log_bytes, 1u << 20));
  const auto a = instantiate(exec, q);
  if (error_node != nullptr) *error_node = handle_from<CUgraphNode>(a.body.error_node);
  if (log != nullptr && log_bytes != 0) {
    const auto bytes = std::min(a.body.log.size(), log_bytes - 1);
    std::memcpy(log, a.body.log.data(), bytes);
    log[bytes] = '\0';
  }
  return a.result;
}

// Where the driver counts nodes and where it fills the program's array: a longer array is filled up
// with null.
CUresult list(CUgraph graph, CUgraphNode* nodes, std::size_t* count, bool roots) {
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_list::request q;
  q.graph = id_of(graph);
  q.roots = roots;
  q.nodes_wanted = nodes != nullptr;
  const auto a = call<msg::graph_list>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (nodes == nullptr) {
    *count = a.body.count;
    return CUDA_SUCCESS;
  }
  for (std::size_t i = 0; i < *count; ++i)
    nodes[i] = i < a.body.nodes.size ? handle_from<CUgraphNode>(a.body.nodes[i]) : nullptr;
  *count = std::min<std::size_t>(*count, a.body.nodes.size);
  return CUDA_SUCCESS;
}

}  // namespace

namespace custom {

CUresult cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                            char* logBuffer, std::size_t bufferSize) {
  return instantiate_with_log(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize, 1);
}
CUresult cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                               char* logBuffer, std::size_t bufferSize) {
  return instantiate_with_log(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize, 2);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph,
                                     unsigned long long flags) {
  if (phGraphExec == nullptr || hGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_instantiate::request q;
  q.graph = id_of(hGraph);
  q.revision = 3;
  q.flags = flags;
  return instantiate(phGraphExec, q).result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
  if (phGraphExec == nullptr || hGraph == nullptr || instantiateParams == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  msg::graph_instantiate::request q;
  q.graph = id_of(hGraph);
  q.revision = 4;
  q.flags = instantiateParams->flags;
  if ((q.flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) {
    const auto target = find_stream(instantiateParams->hUploadStream);
    if (target.result != CUDA_SUCCESS) return target.result;
    q.upload_stream = target.id;
  }
  const auto a = instantiate(phGraphExec, q);
  instantiateParams->hErrNode_out = handle_from<CUgraphNode>(a.body.error_node);
  instantiateParams->result_out = static_cast<CUgraphInstantiateResult>(a.body.detail);
  return a.result;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  exec_record* exec = find_exec(hGraphExec);
  if (exec == nullptr)
    return hGraphExec == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
  msg::graph_launch::request q;
  q.exec = id_of(hGraphExec);
  q.stream = target.id;
  if (const CUresult r = prepare_launch(*exec, q.delivery); r != CUDA_SUCCESS) return r;
  if (exec->watched) return call_operation<msg::graph_launch>(*target.credit, 0, q).result;
  return post_operation<msg::graph_launch>(*target.credit, 0, q);
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (find_exec(hGraphExec) == nullptr)
    return hGraphExec == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
  msg::graph_upload::request q;
  q.exec = id_of(hGraphExec);
  q.stream = target.id;
  return post_operation<msg::graph_upload>(*target.credit, 0, q);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
  exec_record* exec = find_exec(hGraphExec);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto expected = id_of(hGraphExec);
  if (!exec->id.compare_exchange_strong(expected, 0)) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_exec_destroy::request q;
  q.exec = id_of(hGraphExec);
  return post<msg::graph_exec_destroy>(q);
}

CUresult cuGraphDestroy(CUgraph hGraph) {
  if (hGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_destroy::request q;
  q.graph = id_of(hGraph);
  forget_values_of_graph(hGraph);
  return call<msg::graph_destroy>(q).result;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, std::size_t* numNodes) {
  return list(hGraph, nodes, numNodes, false);
}
CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, std::size_t* numRootNodes) {
  return list(hGraph, rootNodes, numRootNodes, true);
}

}  // namespace custom
}  // namespace gpuwire::shim
