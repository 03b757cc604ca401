// SPDX-License-Identifier: Apache-2.0
#include "shim/attributes.hpp"

#include <cstring>
#include <initializer_list>

#include "shim/entry.hpp"

namespace gpuwire::shim {
namespace {

void set_values(msg::launch_attribute& out, attribute_values& storage,
                std::initializer_list<std::int32_t> values) {
  std::uint32_t count = 0;
  for (const auto v : values) storage[count++] = v;
  out.values = {storage.data(), count};
}

// How many integers an id carries; -1 for one that is not carried.
int value_count(CUlaunchAttributeID id) {
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

std::int32_t as_int(unsigned value) {
  return static_cast<std::int32_t>(value);
}
unsigned as_unsigned(std::int32_t value) {
  return static_cast<unsigned>(value);
}

}  // namespace

bool encode_attribute(CUlaunchAttributeID id, const CUlaunchAttributeValue& value,
                      msg::launch_attribute& out, attribute_values& storage) {
  if (value_count(id) < 0) return false;
  out = {};
  out.id = static_cast<std::uint32_t>(id);
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      out.address = reinterpret_cast<std::uint64_t>(value.accessPolicyWindow.base_ptr);
      out.bytes = value.accessPolicyWindow.num_bytes;
      out.ratio = value.accessPolicyWindow.hitRatio;
      set_values(out, storage,
                 {value.accessPolicyWindow.hitProp, value.accessPolicyWindow.missProp});
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      out.handle = id_of(value.programmaticEvent.event);
      set_values(out, storage,
                 {value.programmaticEvent.flags, value.programmaticEvent.triggerAtBlockStart});
      break;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      out.handle = id_of(value.launchCompletionEvent.event);
      set_values(out, storage, {value.launchCompletionEvent.flags});
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      set_values(out, storage, {value.memSyncDomainMap.default_, value.memSyncDomainMap.remote});
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      set_values(
          out, storage,
          {as_int(value.clusterDim.x), as_int(value.clusterDim.y), as_int(value.clusterDim.z)});
      break;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      set_values(out, storage, {value.deviceUpdatableKernelNode.deviceUpdatable});
      break;
    default:  // every other carried member is one 32-bit integer at the union's start
      set_values(out, storage, {value.cooperative});
      break;
  }
  return true;
}

bool decode_attribute(const msg::launch_attribute& in, CUlaunchAttributeValue& value) {
  const auto id = static_cast<CUlaunchAttributeID>(in.id);
  const int count = value_count(id);
  if (count < 0 || in.values.size != static_cast<std::uint32_t>(count)) return false;
  std::memset(&value, 0, sizeof value);
  const auto* v = in.values.data;
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      value.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(in.address);
      value.accessPolicyWindow.num_bytes = in.bytes;
      value.accessPolicyWindow.hitRatio = in.ratio;
      value.accessPolicyWindow.hitProp = static_cast<CUaccessProperty>(v[0]);
      value.accessPolicyWindow.missProp = static_cast<CUaccessProperty>(v[1]);
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      value.programmaticEvent.event = handle_from<CUevent>(in.handle);
      value.programmaticEvent.flags = v[0];
      value.programmaticEvent.triggerAtBlockStart = v[1];
      break;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      value.launchCompletionEvent.event = handle_from<CUevent>(in.handle);
      value.launchCompletionEvent.flags = v[0];
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      value.memSyncDomainMap.default_ = static_cast<unsigned char>(v[0]);
      value.memSyncDomainMap.remote = static_cast<unsigned char>(v[1]);
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      value.clusterDim.x = as_unsigned(v[0]);
      value.clusterDim.y = as_unsigned(v[1]);
      value.clusterDim.z = as_unsigned(v[2]);
      break;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      value.deviceUpdatableKernelNode.deviceUpdatable = v[0];
      // Meant for kernels, which hand it back to the device: the number passes unchanged.
      value.deviceUpdatableKernelNode.devNode = reinterpret_cast<CUgraphDeviceNode>(in.address);
      break;
    default:
      value.cooperative = v[0];
      break;
  }
  return true;
}

}  // namespace gpuwire::shim
