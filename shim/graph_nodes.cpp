// SPDX-License-Identifier: Apache-2.0
// Adding nodes to graphs and changing them, there and in executable graphs. All the typed functions
// and the general ones become three messages.
#include <map>
#include <mutex>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/graph_edges.hpp"
#include "shim/graph_memory.hpp"
#include "shim/graph_parameters.hpp"
#include "shim/graphs.hpp"

namespace gpuwire::shim {
namespace {

struct node_place {
  CUgraphNode* node = nullptr;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  std::size_t count = 0;
};

// What the server tells of the new node.
struct added_node {
  CUdeviceptr address = 0;
  std::vector<CUgraph> bodies;
};

CUresult add(const node_place& place, CUresult parameters_are, graph_parameters& parameters,
             added_node* out = nullptr) {
  if (place.node == nullptr || place.graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (parameters_are != CUDA_SUCCESS) return parameters_are;
  node_list list;
  if (!list.take(place.dependencies, place.edges, place.count)) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_node_add::request q;
  q.graph = id_of(place.graph);
  q.dependencies = list.nodes();
  q.edges = list.edges();
  parameters.give(q);
  const auto a = call<msg::graph_node_add>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  *place.node = handle_from<CUgraphNode>(a.body.node);
  if (out == nullptr) return CUDA_SUCCESS;
  out->address = a.body.address;
  for (const auto id : a.body.bodies) out->bodies.push_back(handle_from<CUgraph>(id));
  return CUDA_SUCCESS;
}

// The array of a conditional node's body graphs belongs to the driver natively and lives as long as
// the node.
CUgraph* keep_bodies(CUgraphNode node, std::vector<CUgraph> bodies) {
  static std::mutex mutex;
  static auto* kept = new std::map<CUgraphNode, std::vector<CUgraph>>;
  std::lock_guard lock(mutex);
  auto& mine = (*kept)[node];
  mine = std::move(bodies);
  return mine.data();
}

CUresult add_general(const node_place& place, CUgraphNodeParams* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  graph_parameters parameters;
  added_node added;
  const CUresult r = add(place, parameters.set(*p), parameters, &added);
  if (r != CUDA_SUCCESS) return r;
  if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) p->alloc.dptr = added.address;
  if (p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    p->conditional.phGraph_out = keep_bodies(*place.node, std::move(added.bodies));
  return CUDA_SUCCESS;
}

CUresult set(CUgraphNode node, CUresult parameters_are, graph_parameters& parameters) {
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (parameters_are != CUDA_SUCCESS) return parameters_are;
  msg::graph_node_set::request q;
  q.node = id_of(node);
  parameters.give(q);
  forget_node_values(node);
  return call<msg::graph_node_set>(q).result;
}

// Posted: a program that changes a thousand nodes before each launch does not wait a thousand
// times.
CUresult set_in_exec(CUgraphExec exec, CUgraphNode node, CUresult parameters_are,
                     graph_parameters& parameters) {
  if (find_exec(exec) == nullptr || node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (parameters_are != CUDA_SUCCESS) return parameters_are;
  msg::graph_exec_node_set::request q;
  q.exec = id_of(exec);
  q.node = id_of(node);
  parameters.give(q);
  const CUresult r = post<msg::graph_exec_node_set>(q);
  if (r == CUDA_SUCCESS && parameters.copy() != nullptr)
    change_boxes(*find_exec(exec), node, *parameters.copy());
  return r;
}

template <class Parameters, class Convert>
CUresult converted(graph_parameters& out, const Parameters* p, const Convert& convert) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : out.set(convert(*p));
}
const auto kernel_v1 = [](const CUDA_KERNEL_NODE_PARAMS_v1& p) { return as_v3(p); };
const auto kernel_v2 = [](const CUDA_KERNEL_NODE_PARAMS_v2& p) { return as_v3(p); };
const auto host = [](const CUDA_HOST_NODE_PARAMS_v1& p) {
  return CUDA_HOST_NODE_PARAMS_v2{p.fn, p.userData};
};
const auto batch = [](const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1& p) { return as_v2(p); };

CUresult copy_of(graph_parameters& out, const CUDA_MEMCPY3D* p, CUcontext context) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : out.set(*p, context);
}
CUresult fill_of(graph_parameters& out, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext context) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : out.set(as_v2(*p, context));
}

}  // namespace

namespace custom {

// ---- adding ----

CUresult cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                        std::size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return add_general({phGraphNode, hGraph, dependencies, nullptr, numDependencies}, nodeParams);
}
CUresult cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph,
                           const CUgraphNode* dependencies, const CUgraphEdgeData* dependencyData,
                           std::size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return add_general({phGraphNode, hGraph, dependencies, dependencyData, numDependencies},
                     nodeParams);
}

CUresult cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                              const CUgraphNode* dependencies, std::size_t numDependencies,
                              const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  graph_parameters p;
  return add({phGraphNode, hGraph, dependencies, nullptr, numDependencies},
             converted(p, nodeParams, kernel_v1), p);
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph,
                                 const CUgraphNode* dependencies, std::size_t numDependencies,
                                 const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  graph_parameters p;
  return add({phGraphNode, hGraph, dependencies, nullptr, numDependencies},
             converted(p, nodeParams, kernel_v2), p);
}
CUresult cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                              const CUgraphNode* dependencies, std::size_t numDependencies,
                              const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  graph_parameters p;
  return add({phGraphNode, hGraph, dependencies, nullptr, numDependencies},
             copy_of(p, copyParams, ctx), p);
}
CUresult cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                              const CUgraphNode* dependencies, std::size_t numDependencies,
                              const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
  graph_parameters p;
  return add({phGraphNode, hGraph, dependencies, nullptr, numDependencies},
             fill_of(p, memsetParams, ctx), p);
}
CUresult cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                            const CUgraphNode* dependencies, std::size_t numDependencies,
                            const CUDA_HOST_NODE_PARAMS* nodeParams) {
  graph_parameters p;
  return add({phGraphNode, hGraph, dependencies, nullptr, numDependencies},
             converted(p, nodeParams, host), p);
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                  const CUgraphNode* dependencies, std::size_t numDependencies,
                                  CUgraph childGraph) {
  graph_parameters p;
  return add({phGraphNode, hGraph, dependencies, nullptr, numDependencies},
             p.set_child(childGraph, 0), p);
}
CUresult cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                             const CUgraphNode* dependencies, std::size_t numDependencies) {
  graph_parameters p;
  return add({phGraphNode, hGraph, dependencies, nullptr, numDependencies}, p.set_empty(), p);
}
CUresult cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                   const CUgraphNode* dependencies, std::size_t numDependencies,
                                   CUevent event) {
  graph_parameters p;
  return add({phGraphNode, hGraph, dependencies, nullptr, numDependencies},
             p.set_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event), p);
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                 const CUgraphNode* dependencies, std::size_t numDependencies,
                                 CUevent event) {
  graph_parameters p;
  return add({phGraphNode, hGraph, dependencies, nullptr, numDependencies},
             p.set_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event), p);
}
CUresult cuGraphAddBatchMemOpNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                  const CUgraphNode* dependencies, std::size_t numDependencies,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  graph_parameters p;
  return add({phGraphNode, hGraph, dependencies, nullptr, numDependencies},
             converted(p, nodeParams, batch), p);
}
CUresult cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                const CUgraphNode* dependencies, std::size_t numDependencies,
                                CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  graph_parameters p;
  added_node added;
  const CUresult r = add({phGraphNode, hGraph, dependencies, nullptr, numDependencies},
                         p.set(as_v2(*nodeParams)), p, &added);
  if (r == CUDA_SUCCESS) nodeParams->dptr = added.address;
  return r;
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                               const CUgraphNode* dependencies, std::size_t numDependencies,
                               CUdeviceptr dptr) {
  graph_parameters p;
  return add({phGraphNode, hGraph, dependencies, nullptr, numDependencies}, p.set_free(dptr), p);
}

// ---- changing a node of a graph ----

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  graph_parameters p;
  return set(hNode, nodeParams == nullptr ? CUDA_ERROR_INVALID_VALUE : p.set(*nodeParams), p);
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode,
                                    const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  graph_parameters p;
  return set(hNode, converted(p, nodeParams, kernel_v1), p);
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
                                       const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  graph_parameters p;
  return set(hNode, converted(p, nodeParams, kernel_v2), p);
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams) {
  graph_parameters p;
  return set(hNode, copy_of(p, nodeParams, nullptr), p);
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  graph_parameters p;
  return set(hNode, fill_of(p, nodeParams, nullptr), p);
}
CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  graph_parameters p;
  return set(hNode, converted(p, nodeParams, host), p);
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  graph_parameters p;
  return set(hNode, p.set_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event), p);
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  graph_parameters p;
  return set(hNode, p.set_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event), p);
}
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  graph_parameters p;
  return set(hNode, converted(p, nodeParams, batch), p);
}

// ---- changing a node of an executable graph ----

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                  CUgraphNodeParams* nodeParams) {
  graph_parameters p;
  return set_in_exec(hGraphExec, hNode,
                     nodeParams == nullptr ? CUDA_ERROR_INVALID_VALUE : p.set(*nodeParams), p);
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  graph_parameters p;
  return set_in_exec(hGraphExec, hNode, converted(p, nodeParams, kernel_v1), p);
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  graph_parameters p;
  return set_in_exec(hGraphExec, hNode, converted(p, nodeParams, kernel_v2), p);
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  graph_parameters p;
  return set_in_exec(hGraphExec, hNode, copy_of(p, copyParams, ctx), p);
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                        CUcontext ctx) {
  graph_parameters p;
  return set_in_exec(hGraphExec, hNode, fill_of(p, memsetParams, ctx), p);
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      const CUDA_HOST_NODE_PARAMS* nodeParams) {
  graph_parameters p;
  return set_in_exec(hGraphExec, hNode, converted(p, nodeParams, host), p);
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            CUgraph childGraph) {
  graph_parameters p;
  return set_in_exec(hGraphExec, hNode, p.set_child(childGraph, 0), p);
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            CUevent event) {
  graph_parameters p;
  return set_in_exec(hGraphExec, hNode, p.set_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event), p);
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                          CUevent event) {
  graph_parameters p;
  return set_in_exec(hGraphExec, hNode, p.set_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event), p);
}
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  graph_parameters p;
  return set_in_exec(hGraphExec, hNode, converted(p, nodeParams, batch), p);
}

}  // namespace custom
}  // namespace gpuwire::shim
