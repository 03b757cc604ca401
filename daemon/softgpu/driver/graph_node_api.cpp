// SPDX-License-Identifier: Apache-2.0
// Adding nodes to a graph, reading and setting their parameters.
#include "graph_params.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

// The revisions differ in members at the end that the first one leaves null.
CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
          p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    nullptr,     nullptr};
}

template <typename Make>
CUresult add(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
             const CUgraphEdgeData* data, std::size_t count, Make make) {
  return with_graphs([&] {
    require(out != nullptr);
    auto to = graph_of(handle);
    const auto dependencies = edges_of(*to, nodes, data, count);
    *out = add_node(*to, make(*to), dependencies)->handle;
    return CUDA_SUCCESS;
  });
}

template <typename Payload, typename Read>
CUresult get(CUgraphNode handle, const void* out, Read read) {
  return with_graphs([&] {
    auto which = node_of(handle);
    auto& payload = payload_of<Payload>(*which);
    require(out != nullptr);
    read(*which, payload);
    return CUDA_SUCCESS;
  });
}

template <typename Payload, typename Make>
CUresult set(CUgraphNode handle, Make make) {
  return with_graphs([&] {
    auto which = node_of(handle);
    auto& payload = payload_of<Payload>(*which);
    payload = make(payload);
    return CUDA_SUCCESS;
  });
}

CUresult set_kernel(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return set<kernel_payload>(handle, [&](const kernel_payload& before) {
    auto made = kernel_from(parameters);
    require(made.launch.which->owner == before.launch.which->owner);
    made.attributes = before.attributes;
    made.launch.shape.cooperative = before.launch.shape.cooperative;
    return made;
  });
}

CUresult add_any(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                 const CUgraphEdgeData* data, std::size_t count, CUgraphNodeParams* parameters) {
  return with_graphs([&] {
    require(out != nullptr && parameters != nullptr);
    auto to = graph_of(handle);
    const auto dependencies = edges_of(*to, nodes, data, count);
    auto made = add_node(*to, payload_from(parameters, *to), dependencies);
    if (auto* choice = std::get_if<conditional_payload>(&made->payload))
      parameters->conditional.phGraph_out = choice->handles.data();
    *out = made->handle;
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuGraphAddNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes, size_t count,
                        CUgraphNodeParams* parameters) {
  return add_any(out, handle, nodes, nullptr, count, parameters);
}
CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                           const CUgraphEdgeData* data, size_t count,
                           CUgraphNodeParams* parameters) {
  return add_any(out, handle, nodes, data, count, parameters);
}

CUresult cuGraphNodeSetParams(CUgraphNode handle, CUgraphNodeParams* parameters) {
  return with_graphs([&] {
    auto which = node_of(handle);
    require(parameters != nullptr && parameters->type == which->type());
    switch (parameters->type) {
      case CU_GRAPH_NODE_TYPE_GRAPH:
      case CU_GRAPH_NODE_TYPE_EMPTY:
      case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      case CU_GRAPH_NODE_TYPE_MEM_FREE:
      case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        break;
    }
    auto wanted = payload_from(parameters, *which->in);
    if (auto* kernel = std::get_if<kernel_payload>(&wanted)) {
      const auto& before = std::get<kernel_payload>(which->payload);
      require(kernel->launch.which->owner == before.launch.which->owner);
      kernel->attributes = before.attributes;
      kernel->launch.shape.cooperative = before.launch.shape.cooperative;
    }
    which->payload = std::move(wanted);
    return CUDA_SUCCESS;
  });
}

// ---- kernels
// --------------------------------------------------------------------------------------------------------

CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return add(out, handle, nodes, nullptr, count, [&](const graph&) {
    require(parameters != nullptr);
    const auto wide = widened(*parameters);
    return kernel_from(&wide);
  });
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return add(out, handle, nodes, nullptr, count,
             [&](const graph&) { return kernel_from(parameters); });
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  return get<kernel_payload>(handle, out, [&](graph_node& which, const kernel_payload& kernel) {
    const auto all = parameters_of(which, kernel);
    *out = {all.func,      all.gridDimX,  all.gridDimY,       all.gridDimZ,     all.blockDimX,
            all.blockDimY, all.blockDimZ, all.sharedMemBytes, all.kernelParams, all.extra};
  });
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* out) {
  return get<kernel_payload>(handle, out, [&](graph_node& which, const kernel_payload& kernel) {
    *out = parameters_of(which, kernel);
  });
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode handle,
                                    const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (parameters == nullptr) return set_kernel(handle, nullptr);
  const auto wide = widened(*parameters);
  return set_kernel(handle, &wide);
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle,
                                       const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return set_kernel(handle, parameters);
}

// ---- copies and fills
// -----------------------------------------------------------------------------------------------

CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                              size_t count, const CUDA_MEMCPY3D* parameters, CUcontext in) {
  return add(out, handle, nodes, nullptr, count,
             [&](const graph&) { return memcpy_from(parameters, in); });
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D* out) {
  return get<memcpy_payload>(
      handle, out, [&](graph_node&, const memcpy_payload& copy) { *out = copy.parameters; });
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D* parameters) {
  return set<memcpy_payload>(handle, [&](const memcpy_payload& before) {
    return memcpy_from(parameters, before.in->handle);
  });
}

CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* parameters,
                              CUcontext in) {
  return add(out, handle, nodes, nullptr, count,
             [&](const graph&) { return memset_from(parameters, in); });
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS* out) {
  return get<memset_payload>(
      handle, out, [&](graph_node&, const memset_payload& fill) { *out = fill.parameters; });
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS* parameters) {
  return set<memset_payload>(handle, [&](const memset_payload& before) {
    return memset_from(parameters, before.in->handle);
  });
}

// ---- host functions, child graphs, nothing
// ------------------------------------------------------------------------

CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                            size_t count, const CUDA_HOST_NODE_PARAMS* parameters) {
  return add(out, handle, nodes, nullptr, count,
             [&](const graph&) { return host_from(parameters); });
}
CUresult cuGraphHostNodeGetParams(CUgraphNode handle, CUDA_HOST_NODE_PARAMS* out) {
  return get<host_payload>(handle, out,
                           [&](graph_node&, const host_payload& host) { *out = host.parameters; });
}
CUresult cuGraphHostNodeSetParams(CUgraphNode handle, const CUDA_HOST_NODE_PARAMS* parameters) {
  return set<host_payload>(handle, [&](const host_payload&) { return host_from(parameters); });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                                  size_t count, CUgraph child) {
  return add(out, handle, nodes, nullptr, count,
             [&](const graph&) { return child_from(child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE); });
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* out) {
  return get<child_payload>(
      handle, out, [&](graph_node&, const child_payload& child) { *out = child.body->handle; });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                             size_t count) {
  return add(out, handle, nodes, nullptr, count, [](const graph&) { return empty_payload{}; });
}

// ---- events
// ---------------------------------------------------------------------------------------------------------

CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                                   size_t count, CUevent event) {
  return add(out, handle, nodes, nullptr, count,
             [&](const graph&) { return event_record_payload{event_for_node(event)}; });
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode handle, CUevent* out) {
  return get<event_record_payload>(handle, out, [&](graph_node&, const event_record_payload& mark) {
    *out = mark.which->handle;
  });
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode handle, CUevent event) {
  return set<event_record_payload>(handle, [&](const event_record_payload&) {
    return event_record_payload{event_for_node(event)};
  });
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                                 size_t count, CUevent event) {
  return add(out, handle, nodes, nullptr, count,
             [&](const graph&) { return event_wait_payload{event_for_node(event)}; });
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode handle, CUevent* out) {
  return get<event_wait_payload>(
      handle, out, [&](graph_node&, const event_wait_payload& mark) { *out = mark.which->handle; });
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode handle, CUevent event) {
  return set<event_wait_payload>(
      handle, [&](const event_wait_payload&) { return event_wait_payload{event_for_node(event)}; });
}

// ---- memory operations by value
// -----------------------------------------------------------------------------------

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                                  size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  return add(out, handle, nodes, nullptr, count,
             [&](const graph&) { return batch_from(parameters); });
}
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode handle, CUDA_BATCH_MEM_OP_NODE_PARAMS* out) {
  return get<batch_payload>(handle, out, [&](graph_node&, batch_payload& batch) {
    *out = {batch.in->handle, static_cast<unsigned>(batch.operations.size()),
            batch.operations.data(), batch.flags};
  });
}
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode handle,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  return set<batch_payload>(handle, [&](const batch_payload&) { return batch_from(parameters); });
}
