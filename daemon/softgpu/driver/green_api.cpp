// SPDX-License-Identifier: Apache-2.0
// Green contexts: parts of the device by number of multiprocessors, and contexts on them. What runs
// in one is spread over all host threads nevertheless: a part promises that nobody else uses it,
// and nobody here computes faster alone.
#include <algorithm>
#include <cstring>

#include "context.hpp"
#include "guard.hpp"
#include "scheduler.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

constexpr std::uint64_t mark = 0x736f667467707531;
constexpr unsigned api_version = 3020;

// What lies in the part of the struct that belongs to the driver.
struct hidden {
  std::uint64_t mark = 0;
  int device = 0;
  unsigned multiprocessors = 0;
};
static_assert(sizeof(hidden) <= sizeof(CUdevResource::_internal_padding));

struct descriptor {
  int device = 0;
  unsigned multiprocessors = 0;
};

struct green_context {
  CUgreenCtx handle = nullptr;
  std::shared_ptr<context> in;
  unsigned multiprocessors = 0;
};

// Kinds that nobody else needs to know.
constexpr auto kind_descriptor = static_cast<handle_kind>(101);
constexpr auto kind_green = static_cast<handle_kind>(102);
using descriptor_table = handle_table<descriptor, CUdevResourceDesc, kind_descriptor>;
using green_table = handle_table<green_context, CUgreenCtx, kind_green>;

descriptor_table& descriptors() {
  static auto* table = new descriptor_table;
  return *table;
}
green_table& greens() {
  static auto* table = new green_table;
  return *table;
}

std::shared_ptr<green_context> green_of(CUgreenCtx handle,
                                        CUresult otherwise = CUDA_ERROR_INVALID_HANDLE) {
  auto found = greens().find(handle);
  require(found != nullptr, otherwise);
  return found;
}

std::shared_ptr<green_context> green_on(const context& in) {
  std::shared_ptr<green_context> found;
  greens().for_each_copy([&](const std::shared_ptr<green_context>& each) {
    if (each->in.get() == &in) found = each;
  });
  return found;
}

CUdevResource resource_of(int device, unsigned multiprocessors) {
  CUdevResource made{};
  if (multiprocessors == 0) return made;  // of type invalid
  made.type = CU_DEV_RESOURCE_TYPE_SM;
  const hidden own{mark, device, multiprocessors};
  std::memcpy(made._internal_padding, &own, sizeof own);
  made.sm.smCount = multiprocessors;
  made.sm.minSmPartitionSize = 1;
  made.sm.smCoscheduledAlignment = 1;
  return made;
}

hidden content_of(const CUdevResource& resource) {
  hidden own;
  std::memcpy(&own, resource._internal_padding, sizeof own);
  require(resource.type == CU_DEV_RESOURCE_TYPE_SM && own.mark == mark,
          CUDA_ERROR_INVALID_RESOURCE_TYPE);
  return own;
}

void check_type(CUdevResourceType type) {
  require(type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

}  // namespace

CUresult cuDeviceGetDevResource(CUdevice dev, CUdevResource* out, CUdevResourceType type) {
  return initialised([&] {
    const auto& on = device_of(dev);
    require(out != nullptr);
    check_type(type);
    *out = resource_of(dev, on.multiprocessors);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource* out, CUdevResourceType type) {
  return initialised([&] {
    auto which = context_of(handle);
    require(out != nullptr);
    check_type(type);
    const auto part = green_on(*which);
    *out = resource_of(which->on.ordinal,
                       part != nullptr ? part->multiprocessors : which->on.multiprocessors);
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource* out, CUdevResourceType type) {
  return initialised([&] {
    auto which = green_of(handle);
    require(out != nullptr);
    check_type(type);
    *out = resource_of(which->in->on.ordinal, which->multiprocessors);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* out, unsigned int* groups,
                                     const CUdevResource* input, CUdevResource* remaining,
                                     unsigned int flags, unsigned int count_min) {
  return initialised([&] {
    require(groups != nullptr && input != nullptr);
    constexpr unsigned known_flags = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
                                     CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
    require((flags & ~known_flags) == 0);
    const auto whole = content_of(*input);
    const unsigned each = std::max(count_min, 1u);
    require(each <= whole.multiprocessors, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    const unsigned possible = whole.multiprocessors / each;
    if (out == nullptr) {
      *groups = possible;
      return CUDA_SUCCESS;
    }
    require(*groups > 0);
    *groups = std::min(*groups, possible);
    for (unsigned at = 0; at < *groups; ++at) out[at] = resource_of(whole.device, each);
    if (remaining != nullptr)
      *remaining = resource_of(whole.device, whole.multiprocessors - *groups * each);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* out, CUdevResource* resources,
                                   unsigned int count) {
  return initialised([&] {
    require(out != nullptr && resources != nullptr && count > 0);
    auto made = std::make_shared<descriptor>();
    made->device = content_of(resources[0]).device;
    for (unsigned at = 0; at < count; ++at) {
      const auto one = content_of(resources[at]);
      require(one.device == made->device, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
      made->multiprocessors += one.multiprocessors;
    }
    const auto handle = descriptors().mint();
    descriptors().insert(handle, std::move(made));
    *out = handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc wanted, CUdevice dev,
                          unsigned int flags) {
  return initialised([&] {
    auto& on = device_of(dev);
    require(out != nullptr && flags == CU_GREEN_CTX_DEFAULT_STREAM);
    const auto part = descriptors().find(wanted);
    require(part != nullptr && part->device == dev);
    auto made = std::make_shared<green_context>();
    made->in = context::make(on, false);
    made->in->activate(0, api_version);
    made->multiprocessors = part->multiprocessors;
    made->handle = greens().mint();
    greens().insert(made->handle, made);
    *out = made->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle) {
  return initialised([&] {
    auto gone = greens().remove(handle);
    require(gone != nullptr, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    contexts().remove(gone->in->handle);
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == gone->in) stack.pop_back();
    gone->in->deactivate();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxFromGreenCtx(CUcontext* out, CUgreenCtx handle) {
  return initialised([&] {
    auto which = green_of(handle, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    require(out != nullptr);
    *out = which->in->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long* id) {
  return initialised([&] {
    auto which = green_of(handle, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    require(id != nullptr);
    *id = which->in->unique_id;
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event) {
  return initialised([&] { return cuCtxRecordEvent(green_of(handle)->in->handle, event); });
}
CUresult cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event) {
  return initialised([&] { return cuCtxWaitEvent(green_of(handle)->in->handle, event); });
}

CUresult cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx handle, unsigned int flags,
                                int priority) {
  return initialised([&] {
    auto which = green_of(handle);
    // The driver makes no blocking streams there.
    require(out != nullptr && flags == CU_STREAM_NON_BLOCKING);
    context_stack().push_back(which->in);
    const CUresult result = cuStreamCreateWithPriority(out, flags, priority);
    context_stack().pop_back();
    return result;
  });
}

CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx* out) {
  return initialised([&] {
    auto on = any_stream_of(stream);
    require(out != nullptr);
    const auto part = green_on(*on->in);
    *out = part != nullptr ? part->handle : nullptr;
    return CUDA_SUCCESS;
  });
}
