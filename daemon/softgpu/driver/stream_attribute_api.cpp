// SPDX-License-Identifier: Apache-2.0
// Attributes of streams.
#include <algorithm>

#include "guard.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

bool is_stream_attribute(CUstreamAttrID id) {
  return id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY || id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP || id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

CUlaunchAttributeValue default_of(const stream& which, CUstreamAttrID id) {
  CUlaunchAttributeValue made{};
  if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) made.syncPolicy = CU_SYNC_POLICY_AUTO;
  if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) made.priority = which.priority;
  if (id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) made.memSyncDomainMap.remote = 1;
  return made;
}

}  // namespace

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID id, CUstreamAttrValue* out) {
  return initialised([&] {
    auto which = any_stream_of(handle);
    require(out != nullptr && is_stream_attribute(id));
    std::lock_guard lock(which->attributes_mutex);
    const auto& all = which->attributes;
    const auto set =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.id == id; });
    *out = set == all.end() ? default_of(*which, id) : set->value;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID id, const CUstreamAttrValue* value) {
  return initialised([&] {
    auto which = any_stream_of(handle);
    require(value != nullptr && is_stream_attribute(id));
    CUlaunchAttribute wanted{};
    wanted.id = id;
    wanted.value = *value;
    std::lock_guard lock(which->attributes_mutex);
    std::erase_if(which->attributes, [&](const auto& one) { return one.id == id; });
    which->attributes.push_back(wanted);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  return initialised([&] {
    auto target = any_stream_of(to);
    auto source = any_stream_of(from);
    std::vector<CUlaunchAttribute> all;
    {
      std::lock_guard lock(source->attributes_mutex);
      all = source->attributes;
    }
    std::lock_guard lock(target->attributes_mutex);
    target->attributes = std::move(all);
    return CUDA_SUCCESS;
  });
}
