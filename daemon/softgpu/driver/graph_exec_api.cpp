// SPDX-License-Identifier: Apache-2.0
// Instantiating graphs, changing the instances, launching them.
#include <algorithm>

#include "capture.hpp"
#include "graph_exec.hpp"
#include "graph_params.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

constexpr cuuint64_t known_flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                   CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                   CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUresult instantiate(CUgraphExec* out, CUgraph handle, cuuint64_t flags,
                     instantiate_failure& failure) {
  return initialised([&] {
    auto current = usable_context();
    check_unsafe_call();
    std::lock_guard lock(graph_mutex());
    auto from = graph_of(handle);
    require(out != nullptr && (flags & ~known_flags) == 0);
    // Kernels cannot launch graphs here.
    require((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) == 0, CUDA_ERROR_NOT_SUPPORTED);
    auto made = instantiate_graph(from, flags, *current, failure);
    if (!made) return failure.code;
    *out = made->handle;
    return CUDA_SUCCESS;
  });
}

CUresult instantiate_logged(CUgraphExec* out, CUgraph handle, CUgraphNode* error_node, char* log,
                            std::size_t log_bytes) {
  instantiate_failure failure;
  const CUresult code = instantiate(out, handle, 0, failure);
  if (log != nullptr && log_bytes > 0) *log = 0;
  if (error_node != nullptr) *error_node = code == CUDA_SUCCESS ? nullptr : failure.node;
  return code;
}

template <typename Make>
CUresult set(CUgraphExec exec, CUgraphNode node, Make make) {
  return with_graphs([&] {
    auto which = exec_of(exec);
    auto& own = node_in(*which, node);
    update_payload(own, make(own));
    return CUDA_SUCCESS;
  });
}

CUresult update(CUgraphExec exec, CUgraph handle, CUgraphExecUpdateResultInfo& why) {
  return with_graphs([&] {
    why = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
    auto which = exec_of(exec);
    auto wanted = graph_of(handle);
    return update_exec(*which, *wanted, why) ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  });
}

bool can_be_disabled(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         type == CU_GRAPH_NODE_TYPE_MEMSET;
}

}  // namespace

CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph handle, CUgraphNode* error_node, char* log,
                            size_t log_bytes) {
  return instantiate_logged(out, handle, error_node, log, log_bytes);
}
CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph handle, CUgraphNode* error_node, char* log,
                               size_t log_bytes) {
  return instantiate_logged(out, handle, error_node, log, log_bytes);
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  instantiate_failure failure;
  return instantiate(out, handle, flags, failure);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph handle,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  instantiate_failure failure;
  // Only here is there a stream to upload in, and nothing has to be.
  const auto flags = parameters->flags & ~cuuint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
  const CUresult code = instantiate(out, handle, flags, failure);
  if (code != CUDA_SUCCESS && failure.result == CUDA_GRAPH_INSTANTIATE_SUCCESS)
    failure.result = CUDA_GRAPH_INSTANTIATE_ERROR;
  parameters->result_out = failure.result;
  parameters->hErrNode_out = failure.node;
  return code;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  return with_graphs([&] {
    auto which = exec_of(exec);
    require(flags != nullptr);
    // Priorities of nodes are not among what is told, as natively.
    *flags = which->flags & ~cuuint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY};
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return initialised([&] {
    check_unsafe_call();
    std::lock_guard lock(graph_mutex());
    require(graph_execs().remove(exec) != nullptr);
    return CUDA_SUCCESS;
  });
}

// ---- launching
// ------------------------------------------------------------------------------------------------------

// Nothing has to be brought to the device before a launch.
CUresult cuGraphUpload(CUgraphExec exec, CUstream handle) {
  return initialised([&] {
    auto on = stream_of(handle);
    check_use_in_capture(*on);
    std::lock_guard lock(graph_mutex());
    exec_of(exec);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  return initialised([&] {
    auto on = stream_of(handle);
    check_use_in_capture(*on);
    std::shared_ptr<graph_exec> which;
    prepared_graph prepared;
    {
      std::lock_guard lock(graph_mutex());
      which = exec_of(exec);
      prepared = prepare_graph_launch(*which, on);
    }
    // Not under the lock: a full stream makes the caller wait.
    auto made =
        scheduler::instance().submit_sequence(on, std::move(prepared.what), prepared.events);
    {
      std::lock_guard lock(graph_mutex());
      which->last_launch = std::move(made);
      which.reset();
    }
    on->in->flush_print();
    return CUDA_SUCCESS;
  });
}

// ---- changing an instance
// -------------------------------------------------------------------------------------------

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph handle, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo why{};
  const CUresult code = update(exec, handle, why);
  if (error_node != nullptr) *error_node = why.errorNode;
  if (result != nullptr) *result = why.result;
  return code;
}
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph handle, CUgraphExecUpdateResultInfo* info) {
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return update(exec, handle, *info);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                  CUgraphNodeParams* parameters) {
  return set(exec, node, [&](const graph_node& own) {
    require(parameters != nullptr && parameters->type == own.type());
    switch (parameters->type) {
      case CU_GRAPH_NODE_TYPE_EMPTY:
      case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      case CU_GRAPH_NODE_TYPE_MEM_FREE:
      case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        refuse(CUDA_ERROR_NOT_SUPPORTED);
      default:
        return payload_from(parameters, *own.in);
    }
  });
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return set(exec, node,
             [&](const graph_node&) -> node_payload { return kernel_from(parameters); });
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (parameters == nullptr) return cuGraphExecKernelNodeSetParams_v2(exec, node, nullptr);
  const auto& p = *parameters;
  const CUDA_KERNEL_NODE_PARAMS wide{p.func,         p.gridDimX,  p.gridDimY,  p.gridDimZ,
                                     p.blockDimX,    p.blockDimY, p.blockDimZ, p.sharedMemBytes,
                                     p.kernelParams, p.extra,     nullptr,     nullptr};
  return cuGraphExecKernelNodeSetParams_v2(exec, node, &wide);
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* parameters, CUcontext in) {
  return set(exec, node,
             [&](const graph_node&) -> node_payload { return memcpy_from(parameters, in); });
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext in) {
  return set(exec, node,
             [&](const graph_node&) -> node_payload { return memset_from(parameters, in); });
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* parameters) {
  return set(exec, node, [&](const graph_node&) -> node_payload { return host_from(parameters); });
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  return with_graphs([&] {
    auto which = exec_of(exec);
    auto& own = payload_of<child_payload>(node_in(*which, node));
    update_child(*own.body, *graph_of(child));
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return set(exec, node, [&](const graph_node&) -> node_payload {
    return event_record_payload{event_for_node(event)};
  });
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return set(exec, node, [&](const graph_node&) -> node_payload {
    return event_wait_payload{event_for_node(event)};
  });
}
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  return set(exec, node, [&](const graph_node&) -> node_payload { return batch_from(parameters); });
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled) {
  return with_graphs([&] {
    auto which = exec_of(exec);
    auto& own = node_in(*which, node);
    require(can_be_disabled(own.type()));
    own.enabled = enabled != 0;
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int* enabled) {
  return with_graphs([&] {
    auto which = exec_of(exec);
    auto& own = node_in(*which, node);
    require(can_be_disabled(own.type()) && enabled != nullptr);
    *enabled = own.enabled ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
