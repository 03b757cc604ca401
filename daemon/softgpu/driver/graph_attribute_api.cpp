// SPDX-License-Identifier: Apache-2.0
// Attributes of kernel nodes.
#include <algorithm>
#include <cstring>

#include "graph.hpp"

using namespace gpuwire::softgpu;

namespace gpuwire::softgpu {

bool is_node_attribute(CUlaunchAttributeID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace gpuwire::softgpu

namespace {

// What an attribute has that nobody has set.
CUlaunchAttribute default_of(CUlaunchAttributeID id) {
  CUlaunchAttribute made{};
  made.id = id;
  if (id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) made.value.memSyncDomainMap.remote = 1;
  return made;
}

// How much of the value belongs to the attribute: the rest of the caller's stays as it is.
std::size_t bytes_of(CUlaunchAttributeID id) {
  const CUlaunchAttributeValue value{};
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      return sizeof value.accessPolicyWindow;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      return sizeof value.clusterDim;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      return sizeof value.memSyncDomainMap;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      return sizeof value.deviceUpdatableKernelNode;
    default:
      return sizeof value.cooperative;
  }
}

std::vector<CUlaunchAttribute>::const_iterator find(const kernel_payload& in,
                                                    CUlaunchAttributeID id) {
  return std::find_if(in.attributes.begin(), in.attributes.end(),
                      [&](const CUlaunchAttribute& one) { return one.id == id; });
}

CUlaunchAttribute attribute_of(const kernel_payload& in, CUlaunchAttributeID id) {
  auto set = find(in, id);
  CUlaunchAttribute found = set == in.attributes.end() ? default_of(id) : *set;
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) found.value.cooperative = in.launch.shape.cooperative;
  return found;
}

}  // namespace

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                       CUkernelNodeAttrValue* out) {
  return with_graphs([&] {
    auto& kernel = payload_of<kernel_payload>(*node_of(handle));
    require(out != nullptr && is_node_attribute(id));
    const auto found = attribute_of(kernel, id);
    std::memcpy(out, &found.value, bytes_of(id));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                       const CUkernelNodeAttrValue* value) {
  return with_graphs([&] {
    auto& kernel = payload_of<kernel_payload>(*node_of(handle));
    require(value != nullptr && is_node_attribute(id));
    CUlaunchAttribute wanted{};
    wanted.id = id;
    std::memcpy(&wanted.value, value, bytes_of(id));
    // Kernels cannot change nodes here.
    require(id != CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE ||
                wanted.value.deviceUpdatableKernelNode.deviceUpdatable == 0,
            CUDA_ERROR_NOT_SUPPORTED);
    auto changed = kernel.launch;
    std::vector<std::shared_ptr<event>> none;
    apply_attribute(wanted, changed.shape, none);
    check_launch(changed);
    kernel.launch = std::move(changed);
    auto set = find(kernel, id);
    if (set != kernel.attributes.end()) kernel.attributes.erase(set);
    kernel.attributes.push_back(wanted);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return with_graphs([&] {
    auto& target = payload_of<kernel_payload>(*node_of(to));
    const auto& source = payload_of<kernel_payload>(*node_of(from));
    auto changed = target.launch;
    changed.shape.cooperative = source.launch.shape.cooperative;
    check_launch(changed);
    target.launch = std::move(changed);
    target.attributes = source.attributes;
    return CUDA_SUCCESS;
  });
}
