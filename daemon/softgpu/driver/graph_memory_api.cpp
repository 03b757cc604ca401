// SPDX-License-Identifier: Apache-2.0
// Allocation and free nodes, and what a device tells about the memory of graphs.
#include "device.hpp"
#include "graph_memory.hpp"
#include "graph_params.hpp"

using namespace gpuwire::softgpu;

namespace {

template <typename Make>
CUresult add(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes, std::size_t count,
             Make make) {
  return with_graphs([&] {
    require(out != nullptr);
    auto to = graph_of(handle);
    const auto dependencies = edges_of(*to, nodes, nullptr, count);
    *out = add_node(*to, make(*to), dependencies)->handle;
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  return add(out, handle, nodes, count, [&](const graph&) { return alloc_from(parameters); });
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS* out) {
  return with_graphs([&] {
    const auto& alloc = payload_of<alloc_payload>(*node_of(handle));
    require(out != nullptr);
    *out = alloc.parameters;
    out->accessDescs = alloc.access.empty() ? nullptr : alloc.access.data();
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes,
                               size_t count, CUdeviceptr address) {
  return add(out, handle, nodes, count, [&](const graph& to) { return free_from(address, to); });
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr* out) {
  return with_graphs([&] {
    const auto& freed = payload_of<free_payload>(*node_of(handle));
    require(out != nullptr);
    *out = freed.address;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGraphMemTrim(CUdevice dev) {
  return initialised([&] {
    trim_graph_memory(device_of(dev).ordinal);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute which, void* value) {
  return initialised([&] {
    const auto use = graph_memory_use_of(device_of(dev).ordinal);
    require(value != nullptr);
    auto& out = *static_cast<cuuint64_t*>(value);
    switch (which) {
      case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        out = use.used;
        return CUDA_SUCCESS;
      case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        out = use.used_high;
        return CUDA_SUCCESS;
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        out = use.reserved;
        return CUDA_SUCCESS;
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        out = use.reserved_high;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

// A high-water mark can be set to zero, which makes it what is in use now.
CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute which, void* value) {
  return initialised([&] {
    const int ordinal = device_of(dev).ordinal;
    require(value != nullptr && *static_cast<const cuuint64_t*>(value) == 0);
    switch (which) {
      case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        reset_used_high(ordinal);
        return CUDA_SUCCESS;
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        reset_reserved_high(ordinal);
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}
