// SPDX-License-Identifier: Apache-2.0
#include "graph_params.hpp"

#include <algorithm>

#include "copy.hpp"
#include "graph_memory.hpp"
#include "memop.hpp"
#include "tables.hpp"

namespace gpuwire::softgpu {
namespace {

std::shared_ptr<context> context_for_node(CUcontext handle) {
  auto found = context_or_current(handle);
  require(found->error() == CUDA_SUCCESS, found->error());
  return found;
}

bool contains_kind(const graph& which, bool (*wanted)(CUgraphNodeType)) {
  return std::any_of(which.nodes.begin(), which.nodes.end(), [&](const auto& node) {
    bool found = wanted(node->type());
    for_each_inner_graph(
        *node, [&](const graph& inner) { found = found || contains_kind(inner, wanted); });
    return found;
  });
}

}  // namespace

kernel_payload kernel_from(const CUDA_KERNEL_NODE_PARAMS* parameters) {
  require(parameters != nullptr);
  const auto& p = *parameters;
  const auto shape = make_shape({p.gridDimX, p.gridDimY, p.gridDimZ},
                                {p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes);
  auto given = functions().find(p.func);
  CUfunction handle = p.func != nullptr ? p.func : reinterpret_cast<CUfunction>(p.kern);
  require(handle != nullptr, CUDA_ERROR_INVALID_HANDLE);
  auto in = given ? given->owner : context_for_node(p.ctx);
  // With both forms of arguments the pointers count, as natively.
  void** extra = p.kernelParams == nullptr ? p.extra : nullptr;
  return {prepare_launch(handle, shape, *in, p.kernelParams, extra), {}};
}

memcpy_payload memcpy_from(const CUDA_MEMCPY3D* parameters, CUcontext in) {
  require(parameters != nullptr);
  memcpy_payload made{*parameters, context_for_node(in)};
  require(checked_copy(*parameters) != nullptr);
  return made;
}

memset_payload memset_from(const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext in) {
  require(parameters != nullptr);
  memset_payload made{*parameters, context_for_node(in)};
  require(checked_fill(*parameters) != nullptr);
  return made;
}

host_payload host_from(const CUDA_HOST_NODE_PARAMS* parameters) {
  require(parameters != nullptr && parameters->fn != nullptr);
  return {*parameters};
}

child_payload child_from(CUgraph child, CUgraphChildGraphNodeOwnership ownership) {
  auto original = graph_of(child);
  require(
      !contains_kind(*original,
                     [](CUgraphNodeType type) { return type == CU_GRAPH_NODE_TYPE_CONDITIONAL; }),
      CUDA_ERROR_NOT_SUPPORTED);
  if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
    return {copy_graph(*original, copy_purpose::child)};
  require(ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE && !original->is_inner &&
          original->captures == 0);
  return {std::move(original)};
}

std::shared_ptr<event> event_for_node(CUevent handle) {
  require(handle != nullptr);
  return event_of(handle);
}

batch_payload batch_from(const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  require(parameters != nullptr);
  const auto& p = *parameters;
  require(p.paramArray != nullptr && p.flags == 0 && p.count > 0 &&
          p.count <= batch_operations_max);
  batch_payload made{context_for_node(p.ctx), {p.paramArray, p.paramArray + p.count}, p.flags};
  for (const auto& one : made.operations) batch_operation(one);
  return made;
}

alloc_payload alloc_from(CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  require(parameters != nullptr);
  auto& p = *parameters;
  require(p.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
          p.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE && p.bytesize > 0);
  require(p.poolProps.handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
  require(p.accessDescCount == 0 || p.accessDescs != nullptr);
  require(p.accessDescCount <= devices().size());
  auto& on = device_of(p.poolProps.location.id);
  alloc_payload made;
  made.access.assign(p.accessDescs, p.accessDescs + p.accessDescCount);
  made.memory = make_graph_memory(on, on.primary->id, p.bytesize);
  p.dptr = made.memory->block.base;
  made.parameters = p;
  return made;
}

free_payload free_from(CUdeviceptr address, const graph& in) {
  require(graph_memory_at(address) != nullptr);
  for (const auto& node : in.nodes) {
    const auto* other = std::get_if<free_payload>(&node->payload);
    require(other == nullptr || other->address != address);
  }
  return {address};
}

conditional_payload conditional_from(CUDA_CONDITIONAL_NODE_PARAMS& p, const graph& in) {
  auto found = std::find_if(in.conditions.begin(), in.conditions.end(),
                            [&](const auto& one) { return one->handle == p.handle; });
  require(found != in.conditions.end() && !(*found)->used);
  switch (p.type) {
    case CU_GRAPH_COND_TYPE_IF:
      require(p.size == 1 || p.size == 2);
      break;
    case CU_GRAPH_COND_TYPE_WHILE:
      require(p.size == 1);
      break;
    case CU_GRAPH_COND_TYPE_SWITCH:
      require(p.size > 0 && p.size <= conditional_bodies_max);
      break;
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
  conditional_payload made{*found, p.type, {}, {}};
  for (unsigned at = 0; at < p.size; ++at) {
    made.bodies.push_back(make_graph());
    made.handles.push_back(made.bodies.back()->handle);
  }
  (*found)->used = true;
  return made;
}

node_payload payload_from(CUgraphNodeParams* parameters, const graph& in) {
  require(parameters != nullptr);
  auto& p = *parameters;
  for (const int reserved : p.reserved0) require(reserved == 0);
  require(p.reserved2 == 0);
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const auto& k = p.kernel;
      const CUDA_KERNEL_NODE_PARAMS kernel{
          k.func,      k.gridDimX,       k.gridDimY,     k.gridDimZ, k.blockDimX, k.blockDimY,
          k.blockDimZ, k.sharedMemBytes, k.kernelParams, k.extra,    k.kern,      k.ctx};
      return kernel_from(&kernel);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      require(p.memcpy.flags == 0);
      return memcpy_from(&p.memcpy.copyParams, p.memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& m = p.memset;
      const CUDA_MEMSET_NODE_PARAMS memset{m.dst,         m.pitch, m.value,
                                           m.elementSize, m.width, m.height};
      return memset_from(&memset, m.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS host{p.host.fn, p.host.userData};
      return host_from(&host);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return child_from(p.graph.graph, p.graph.ownership);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return empty_payload{};
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return event_wait_payload{event_for_node(p.eventWait.event)};
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return event_record_payload{event_for_node(p.eventRecord.event)};
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      const CUDA_BATCH_MEM_OP_NODE_PARAMS batch{p.memOp.ctx, p.memOp.count, p.memOp.paramArray,
                                                p.memOp.flags};
      return batch_from(&batch);
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS alloc{p.alloc.poolProps, p.alloc.accessDescs,
                                       p.alloc.accessDescCount, p.alloc.bytesize, 0};
      auto made = alloc_from(&alloc);
      p.alloc.dptr = alloc.dptr;
      return made;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return free_from(p.free.dptr, in);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return conditional_from(p.conditional, in);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      refuse(CUDA_ERROR_NOT_SUPPORTED);
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

CUDA_KERNEL_NODE_PARAMS parameters_of(graph_node& which, const kernel_payload& kernel) {
  const auto& launch = kernel.launch;
  const auto& shape = launch.shape;
  which.argument_pointers.clear();
  for (const auto& parameter : launch.which->info().parameters) {
    which.argument_pointers.push_back(
        const_cast<std::byte*>(launch.arguments.data() + parameter.offset));
  }
  CUDA_KERNEL_NODE_PARAMS made{};
  made.func = launch.which->handle;
  made.gridDimX = shape.grid.x;
  made.gridDimY = shape.grid.y;
  made.gridDimZ = shape.grid.z;
  made.blockDimX = shape.block.x;
  made.blockDimY = shape.block.y;
  made.blockDimZ = shape.block.z;
  made.sharedMemBytes = shape.dynamic_shared_bytes;
  made.kernelParams = which.argument_pointers.empty() ? nullptr : which.argument_pointers.data();
  made.kern = launch.kernel;
  made.ctx = launch.which->owner->handle;
  return made;
}

}  // namespace gpuwire::softgpu
