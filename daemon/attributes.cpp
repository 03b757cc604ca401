// SPDX-License-Identifier: Apache-2.0
#include "daemon/attributes.hpp"

namespace gpuwire::daemon {

int attribute_value_count(CUlaunchAttributeID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      return 2;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      return 3;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      return 1;
    default:
      return -1;
  }
}

CUresult decode_attribute(call_context& c, const msg::launch_attribute& in,
                          CUlaunchAttribute& out) {
  out = {};
  // Beyond the enumerators of this header a number has no meaning, not even as one of its type.
  if (in.id >= CU_LAUNCH_ATTRIBUTE_MAX) return CUDA_ERROR_NOT_SUPPORTED;
  out.id = static_cast<CUlaunchAttributeID>(in.id);
  const int count = attribute_value_count(out.id);
  if (count < 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (in.values.size != static_cast<std::uint32_t>(count)) return CUDA_ERROR_INVALID_VALUE;
  const auto* v = in.values.data;
  auto& value = out.value;
  switch (out.id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      // A device address: the driver hands it to the GPU and never reads it.
      value.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(in.address);
      value.accessPolicyWindow.num_bytes = in.bytes;
      value.accessPolicyWindow.hitRatio = in.ratio;
      value.accessPolicyWindow.hitProp = static_cast<CUaccessProperty>(v[0]);
      value.accessPolicyWindow.missProp = static_cast<CUaccessProperty>(v[1]);
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      value.programmaticEvent.event = c.native<handle_kind::event>(in.handle);
      value.programmaticEvent.flags = v[0];
      value.programmaticEvent.triggerAtBlockStart = v[1];
      break;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      value.launchCompletionEvent.event = c.native<handle_kind::event>(in.handle);
      value.launchCompletionEvent.flags = v[0];
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      value.memSyncDomainMap.default_ = static_cast<unsigned char>(v[0]);
      value.memSyncDomainMap.remote = static_cast<unsigned char>(v[1]);
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      value.clusterDim.x = static_cast<unsigned>(v[0]);
      value.clusterDim.y = static_cast<unsigned>(v[1]);
      value.clusterDim.z = static_cast<unsigned>(v[2]);
      break;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      value.deviceUpdatableKernelNode.deviceUpdatable = v[0];
      break;
    default:  // every other carried member is one 32-bit integer at the union's start
      value.cooperative = v[0];
      break;
  }
  return c.failure();
}

CUresult decode_attributes(call_context& c, const std::vector<msg::launch_attribute>& in,
                           std::vector<CUlaunchAttribute>& out) {
  if (in.size() > launch_attributes_max) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& one : in) {
    if (one.id == CU_LAUNCH_ATTRIBUTE_IGNORE) continue;
    if (const auto problem = decode_attribute(c, one, out.emplace_back()); problem != CUDA_SUCCESS)
      return problem;
  }
  return CUDA_SUCCESS;
}

bool encode_attribute(CUlaunchAttributeID id, const CUlaunchAttributeValue& value,
                      msg::launch_attribute& out, attribute_values& storage) {
  const int count = attribute_value_count(id);
  if (count < 0) return false;
  out = {};
  out.id = static_cast<std::uint32_t>(id);
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      return false;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      out.address = reinterpret_cast<std::uint64_t>(value.accessPolicyWindow.base_ptr);
      out.bytes = value.accessPolicyWindow.num_bytes;
      out.ratio = value.accessPolicyWindow.hitRatio;
      storage = {static_cast<std::int32_t>(value.accessPolicyWindow.hitProp),
                 static_cast<std::int32_t>(value.accessPolicyWindow.missProp), 0};
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      storage = {value.memSyncDomainMap.default_, value.memSyncDomainMap.remote, 0};
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      storage = {static_cast<std::int32_t>(value.clusterDim.x),
                 static_cast<std::int32_t>(value.clusterDim.y),
                 static_cast<std::int32_t>(value.clusterDim.z)};
      break;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      out.address = reinterpret_cast<std::uint64_t>(value.deviceUpdatableKernelNode.devNode);
      storage = {value.deviceUpdatableKernelNode.deviceUpdatable, 0, 0};
      break;
    default:
      storage = {value.cooperative, 0, 0};
      break;
  }
  out.values = {storage.data(), static_cast<std::uint32_t>(count)};
  return true;
}

}  // namespace gpuwire::daemon
