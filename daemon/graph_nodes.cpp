// SPDX-License-Identifier: Apache-2.0
// Adding, changing and asking nodes, of every type by the driver's general functions.
#include <algorithm>

#include "daemon/attributes.hpp"
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/graph_edges.hpp"
#include "daemon/graph_parameters.hpp"
#include "daemon/graph_walk.hpp"

namespace gpuwire::daemon::custom {
namespace {

CUresult add(const driver_table& d, CUgraphNode* node, CUgraph graph,
             const std::vector<CUgraphNode>& dependencies,
             const std::vector<CUgraphEdgeData>& edges, CUgraphNodeParams& parameters) {
  const auto* list = dependencies.empty() ? nullptr : dependencies.data();
  if (d.cuGraphAddNode_v2 != nullptr)
    return d.cuGraphAddNode_v2(node, graph, list, edges.empty() ? nullptr : edges.data(),
                               dependencies.size(), &parameters);
  if (d.cuGraphAddNode == nullptr || !edges.empty()) return CUDA_ERROR_NOT_SUPPORTED;
  return d.cuGraphAddNode(node, graph, list, dependencies.size(), &parameters);
}

}  // namespace

outcome graph_node_add(call_context& c, const msg::graph_node_add::request& q) {
  using call = msg::graph_node_add;
  auto& w = c.owner();
  call::reply r;
  const auto graph = c.native<handle_kind::graph>(q.graph);
  const auto dependencies = natives_of<handle_kind::graph_node>(c, q.dependencies);
  std::vector<CUgraphEdgeData> edges;
  if (!decode_edges(q.edges, dependencies.size(), edges)) return c.malformed();
  node_parameters parameters;
  auto result = c.failed() ? c.failure() : parameters.read(c, q.parameters);
  if (result != CUDA_SUCCESS) return c.finish<call>(result, r);
  auto& given = parameters.driver();
  CUgraphNode node = nullptr;
  result = add(c.driver(), &node, graph, dependencies, edges, given);
  if (result != CUDA_SUCCESS) return c.finish<call>(result, r);
  r.node = w.graphs.node(node, q.graph);
  std::vector<std::uint64_t> bodies;
  if (given.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) r.address = given.alloc.dptr;
  if (given.type == CU_GRAPH_NODE_TYPE_CONDITIONAL && given.conditional.phGraph_out != nullptr) {
    for (unsigned i = 0; i < given.conditional.size; ++i)
      bodies.push_back(w.graphs.embedded(given.conditional.phGraph_out[i], r.node));
  }
  // A graph that was moved into the node belongs to it from now on.
  if (given.type == CU_GRAPH_NODE_TYPE_GRAPH &&
      given.graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
    w.graphs.embedded(given.graph.graph, r.node);
  r.bodies = {bodies.data(), static_cast<std::uint32_t>(bodies.size())};
  return c.finish<call>(result, r);
}

outcome graph_node_set(call_context& c, const msg::graph_node_set::request& q) {
  using call = msg::graph_node_set;
  const auto node = c.native<handle_kind::graph_node>(q.node);
  node_parameters parameters;
  auto result = c.failed() ? c.failure() : parameters.read(c, q.parameters);
  if (result == CUDA_SUCCESS) {
    result = c.driver().cuGraphNodeSetParams
                 ? c.driver().cuGraphNodeSetParams(node, &parameters.driver())
                 : CUDA_ERROR_NOT_SUPPORTED;
  }
  return c.finish<call>(result, {});
}

outcome graph_exec_node_set(call_context& c, const msg::graph_exec_node_set::request& q) {
  using call = msg::graph_exec_node_set;
  const auto exec = c.native<handle_kind::graph_exec>(q.exec);
  const auto node = c.native<handle_kind::graph_node>(q.node);
  node_parameters parameters;
  auto result = c.failed() ? c.failure() : parameters.read(c, q.parameters);
  if (result == CUDA_SUCCESS) {
    result = c.driver().cuGraphExecNodeSetParams
                 ? c.driver().cuGraphExecNodeSetParams(exec, node, &parameters.driver())
                 : CUDA_ERROR_NOT_SUPPORTED;
  }
  if (result == CUDA_SUCCESS && parameters.driver().type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    host_boxes boxes;
    c.owner().graph_data.add_boxes(parameters.driver().memcpy.copyParams, q.node, boxes);
    c.owner().graph_data.replace_boxes(exec, q.node, boxes);
  }
  return c.finish<call>(result, {});
}

outcome graph_node_get(call_context& c, const msg::graph_node_get::request& q) {
  using call = msg::graph_node_get;
  const auto node = c.native<handle_kind::graph_node>(q.node);
  call::reply r;
  if (c.failed()) return c.finish<call>(c.failure(), r);
  node_answer answer;
  const auto result = answer.ask(c, q.node, node, static_cast<CUgraphNodeType>(q.type));
  r.graph = c.owner().graphs.graph_of(q.node);
  if (result == CUDA_SUCCESS) answer.tell(r);
  return c.finish<call>(result, r);
}

outcome graph_attribute_get(call_context& c, const msg::graph_attribute_get::request& q) {
  using call = msg::graph_attribute_get;
  const auto node = c.native<handle_kind::graph_node>(q.node);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (node == nullptr || q.attribute >= CU_LAUNCH_ATTRIBUTE_MAX)
    return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  if (c.driver().cuGraphKernelNodeGetAttribute == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUkernelNodeAttrValue value{};
  const auto id = static_cast<CUkernelNodeAttrID>(q.attribute);
  auto result = c.driver().cuGraphKernelNodeGetAttribute(node, id, &value);
  call::reply r;
  attribute_values storage{};
  msg::launch_attribute out;
  if (result == CUDA_SUCCESS) {
    if (encode_attribute(id, value, out, storage))
      r.value.push_back(out);
    else
      result = CUDA_ERROR_NOT_SUPPORTED;
  }
  return c.finish<call>(result, r);
}

outcome graph_attribute_set(call_context& c, const msg::graph_attribute_set::request& q) {
  using call = msg::graph_attribute_set;
  const auto node = c.native<handle_kind::graph_node>(q.node);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (q.value.size() != 1) return c.malformed();
  if (node == nullptr) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  if (c.driver().cuGraphKernelNodeSetAttribute == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUlaunchAttribute attribute;
  if (const auto problem = decode_attribute(c, q.value[0], attribute); problem != CUDA_SUCCESS)
    return c.finish<call>(problem, {});
  return c.finish<call>(
      c.driver().cuGraphKernelNodeSetAttribute(node, attribute.id, &attribute.value), {});
}

outcome graph_memory_get(call_context& c, const msg::graph_memory_get::request& q) {
  using call = msg::graph_memory_get;
  call::reply r;
  cuuint64_t value = 0;
  if (q.attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    return c.finish<call>(CUDA_ERROR_INVALID_VALUE, r);
  const auto result = c.driver().cuDeviceGetGraphMemAttribute
                          ? c.driver().cuDeviceGetGraphMemAttribute(
                                q.device, static_cast<CUgraphMem_attribute>(q.attribute), &value)
                          : CUDA_ERROR_NOT_SUPPORTED;
  r.value = value;
  return c.finish<call>(result, r);
}

outcome graph_memory_set(call_context& c, const msg::graph_memory_set::request& q) {
  using call = msg::graph_memory_set;
  cuuint64_t value = q.value;
  if (q.attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  const auto result = c.driver().cuDeviceSetGraphMemAttribute
                          ? c.driver().cuDeviceSetGraphMemAttribute(
                                q.device, static_cast<CUgraphMem_attribute>(q.attribute), &value)
                          : CUDA_ERROR_NOT_SUPPORTED;
  return c.finish<call>(result, {});
}

}  // namespace gpuwire::daemon::custom
