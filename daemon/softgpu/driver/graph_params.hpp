// SPDX-License-Identifier: Apache-2.0
// From the parameter structures of the API to what a node keeps, checked, and back.
#pragma once

#include "graph.hpp"

namespace gpuwire::softgpu {

kernel_payload kernel_from(const CUDA_KERNEL_NODE_PARAMS* parameters);
memcpy_payload memcpy_from(const CUDA_MEMCPY3D* parameters, CUcontext in);
memset_payload memset_from(const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext in);
host_payload host_from(const CUDA_HOST_NODE_PARAMS* parameters);
child_payload child_from(CUgraph child, CUgraphChildGraphNodeOwnership ownership);
batch_payload batch_from(const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters);
// Sets the address in the structure.
alloc_payload alloc_from(CUDA_MEM_ALLOC_NODE_PARAMS* parameters);
// A graph frees an address once.
free_payload free_from(CUdeviceptr address, const graph& in);
// For event nodes: null gives 1, as natively, and not 400.
std::shared_ptr<event> event_for_node(CUevent handle);
conditional_payload conditional_from(CUDA_CONDITIONAL_NODE_PARAMS& parameters, const graph& in);
// Any of them. Results are written into the structure.
node_payload payload_from(CUgraphNodeParams* parameters, const graph& in);

// The structure points into the node.
CUDA_KERNEL_NODE_PARAMS parameters_of(graph_node& which, const kernel_payload& kernel);

}  // namespace gpuwire::softgpu
