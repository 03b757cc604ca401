// SPDX-License-Identifier: Apache-2.0
// Green contexts. The struct of a resource holds, where the driver keeps its own data, the number
// under which the daemon keeps the driver's struct; programs copy the struct but do not look
// inside.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "shim/contexts.hpp"
#include "shim/devices.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/streams.hpp"

namespace gpuwire::shim {
namespace {

constexpr std::uint64_t resource_mark =
    0x6770757769726572;  // tells a struct of ours from any other bytes

struct hidden_number {
  std::uint64_t mark = 0, id = 0;
};
static_assert(sizeof(hidden_number) <= sizeof(CUdevResource::_internal_padding));

void fill(CUdevResource& out, const msg::device_resource& from) {
  out = {};
  out.type = static_cast<CUdevResourceType>(from.type);
  const hidden_number number{resource_mark, from.id};
  std::memcpy(out._internal_padding, &number, sizeof number);
  const auto bytes = std::min<std::size_t>(from.values.size, sizeof out._oversize);
  if (bytes != 0) std::memcpy(out._oversize, from.values.data, bytes);
}

// 0: not a resource that was given out.
std::uint64_t number_of(const CUdevResource& resource) {
  hidden_number number;
  std::memcpy(&number, resource._internal_padding, sizeof number);
  return resource.type != CU_DEV_RESOURCE_TYPE_INVALID && number.mark == resource_mark ? number.id
                                                                                       : 0;
}

struct green_contexts {
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> context_of;  // by handle
};

green_contexts& green() {
  static auto* the_green_contexts = new green_contexts;
  return *the_green_contexts;
}

// The ordinary context of a green one; null for a handle that is none.
context_record* context_of(CUgreenCtx handle) {
  auto& g = green();
  std::lock_guard lock(g.mutex);
  const auto found = g.context_of.find(id_of(handle));
  return found == g.context_of.end() ? nullptr : find_context(found->second);
}

enum class resource_scope : std::uint8_t { device = 0, context = 1, green = 2 };

CUresult get_resource(resource_scope scope, CUdevice device, std::uint64_t handle,
                      CUdevResource* resource, CUdevResourceType type) {
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::resource_get::request q;
  q.scope = static_cast<std::uint8_t>(scope);
  q.device = device;
  q.handle = handle;
  q.type = static_cast<std::uint32_t>(type);
  const auto a = transact<msg::resource_get>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (a.body.resources.size() != 1) return CUDA_ERROR_UNKNOWN;
  fill(*resource, a.body.resources.front());
  return CUDA_SUCCESS;
}

}  // namespace

namespace custom {

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  if (find_device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return get_resource(resource_scope::device, device_ordinal(device), 0, resource, type);
}
CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource* resource, CUdevResourceType type) {
  if (find_context(hCtx) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return get_resource(resource_scope::context, 0, id_of(hCtx), resource, type);
}
CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource* resource,
                                  CUdevResourceType type) {
  if (context_of(hCtx) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return get_resource(resource_scope::green, 0, id_of(hCtx), resource, type);
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* nbGroups,
                                     const CUdevResource* input, CUdevResource* remaining,
                                     unsigned int useFlags, unsigned int minCount) {
  if (nbGroups == nullptr || input == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto number = number_of(*input);
  if (number == 0) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  msg::resource_split::request q;
  q.resource = number;
  q.list_wanted = result != nullptr;
  q.remaining_wanted = remaining != nullptr;
  q.groups = *nbGroups;
  q.flags = useFlags;
  q.minimum = minCount;
  const auto a = transact<msg::resource_split>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (result != nullptr) {
    const auto count = std::min<std::size_t>(a.body.resources.size(), *nbGroups);
    for (std::size_t i = 0; i < count; ++i) fill(result[i], a.body.resources[i]);
  }
  if (remaining != nullptr && a.body.remaining.size() == 1)
    fill(*remaining, a.body.remaining.front());
  *nbGroups = a.body.made;
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* phDesc, CUdevResource* resources,
                                   unsigned int nbResources) {
  constexpr unsigned resources_max = 4096;
  if (phDesc == nullptr || resources == nullptr || nbResources == 0 || nbResources > resources_max)
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::uint64_t> numbers;
  for (unsigned i = 0; i < nbResources; ++i) {
    numbers.push_back(number_of(resources[i]));
    if (numbers.back() == 0) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  }
  msg::resource_describe::request q;
  q.resources = {numbers.data(), nbResources};
  const auto a = transact<msg::resource_describe>(q, {}, errors_first::no);
  if (a.result == CUDA_SUCCESS) *phDesc = handle_from<CUdevResourceDesc>(a.body.descriptor);
  return a.result;
}

CUresult cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev,
                          unsigned int flags) {
  if (find_device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (phCtx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::green_create::request q;
  q.descriptor = id_of(desc);
  q.device = device_ordinal(dev);
  q.flags = flags;
  const auto a = transact<msg::green_create>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (learn_context(a.body.context, dev) == nullptr) return CUDA_ERROR_UNKNOWN;
  auto& g = green();
  std::lock_guard lock(g.mutex);
  g.context_of[a.body.green] = a.body.context;
  *phCtx = handle_from<CUgreenCtx>(a.body.green);
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
  context_record* c = context_of(hCtx);
  if (c == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  msg::green_destroy::request q;
  q.green = id_of(hCtx);
  const auto a = transact<msg::green_destroy>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS) return a.result;
  auto& g = green();
  {
    std::lock_guard lock(g.mutex);
    g.context_of.erase(id_of(hCtx));
  }
  forget_context(*c);
  return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) {
  const context_record* c = context_of(hCtx);
  if (c == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (pContext == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pContext = handle_of(*c);
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags,
                                int priority) {
  const context_record* c = context_of(greenCtx);
  if (c == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (phStream == nullptr) return CUDA_ERROR_INVALID_VALUE;
  process_state& s = state();
  const auto id = s.stream_ids.mint();
  stream_record* record = id == 0 ? nullptr : s.streams.make(wire::handle_index(id));
  if (record == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  msg::green_stream::request q;
  q.green = id_of(greenCtx);
  q.stream = id;
  q.flags = flags;
  q.priority = priority;
  const auto a = transact<msg::green_stream>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS) {
    s.stream_ids.give_back(id);
    return a.result;
  }
  record->context = c->index;
  record->flags = a.body.actual_flags;
  record->priority = a.body.actual_priority;
  record->green = id_of(greenCtx);
  record->credit.restart();
  record->id.store(id, std::memory_order_release);
  *phStream = handle_from<CUstream>(id);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx* phCtx) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (phCtx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *phCtx = target.record != nullptr ? handle_from<CUgreenCtx>(target.record->green) : nullptr;
  return CUDA_SUCCESS;
}

}  // namespace custom
}  // namespace gpuwire::shim
