// SPDX-License-Identifier: Apache-2.0
// Resources of devices, their descriptors, and green contexts with their streams.
#include "daemon/call_context.hpp"
#include "daemon/device_resources.hpp"
#include "daemon/generated/custom.hpp"

namespace gpuwire::daemon::custom {
namespace {

enum class resource_scope : std::uint8_t { device = 0, context = 1, green = 2 };

constexpr std::uint32_t groups_max = 1024;

// False when no more resources can be kept.
bool tell(call_context& c, const CUdevResource& resource, std::vector<msg::device_resource>& out) {
  auto& one = out.emplace_back();
  one.id = c.owner().resources.add(resource);
  one.type = static_cast<std::uint32_t>(resource.type);
  one.values = {resource._oversize, sizeof resource._oversize};
  return one.id != 0;
}

}  // namespace

outcome resource_get(call_context& c, const msg::resource_get::request& q) {
  using call = msg::resource_get;
  const auto& d = c.driver();
  if (q.type > CU_DEV_RESOURCE_TYPE_SM) return c.finish<call>(CUDA_ERROR_INVALID_RESOURCE_TYPE, {});
  const auto type = static_cast<CUdevResourceType>(q.type);
  CUdevResource resource{};
  auto result = CUDA_ERROR_NOT_SUPPORTED;
  switch (static_cast<resource_scope>(q.scope)) {
    case resource_scope::device:
      if (d.cuDeviceGetDevResource) result = d.cuDeviceGetDevResource(q.device, &resource, type);
      break;
    case resource_scope::context: {
      const auto context = c.native<handle_kind::context>(q.handle);
      if (c.failed()) return c.finish<call>(c.failure(), {});
      if (d.cuCtxGetDevResource) result = d.cuCtxGetDevResource(context, &resource, type);
      break;
    }
    case resource_scope::green: {
      const auto green = c.native<handle_kind::green_context>(q.handle);
      if (c.failed()) return c.finish<call>(c.failure(), {});
      if (d.cuGreenCtxGetDevResource) result = d.cuGreenCtxGetDevResource(green, &resource, type);
      break;
    }
    default:
      return c.malformed();
  }
  call::reply r;
  if (result == CUDA_SUCCESS && !tell(c, resource, r.resources)) result = CUDA_ERROR_OUT_OF_MEMORY;
  return c.finish<call>(result, r);
}

outcome resource_split(call_context& c, const msg::resource_split::request& q) {
  using call = msg::resource_split;
  const auto split = c.driver().cuDevSmResourceSplitByCount;
  if (split == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const auto input = c.owner().resources.find(q.resource);
  if (!input) return c.finish<call>(CUDA_ERROR_INVALID_RESOURCE_TYPE, {});
  if (q.groups > groups_max) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  std::vector<CUdevResource> groups(q.groups + 1);
  CUdevResource remaining{};
  unsigned made = q.groups;
  auto result = split(q.list_wanted ? groups.data() : nullptr, &made, &*input,
                      q.remaining_wanted ? &remaining : nullptr, q.flags, q.minimum);
  call::reply r;
  r.made = made;
  bool kept = true;
  if (result == CUDA_SUCCESS && q.list_wanted)
    for (unsigned i = 0; i < made && i < q.groups; ++i)
      kept = tell(c, groups[i], r.resources) && kept;
  // A remainder of nothing is of type invalid, which is told as well.
  if (result == CUDA_SUCCESS && q.remaining_wanted) kept = tell(c, remaining, r.remaining) && kept;
  if (!kept) result = CUDA_ERROR_OUT_OF_MEMORY;
  return c.finish<call>(result, r);
}

outcome resource_describe(call_context& c, const msg::resource_describe::request& q) {
  using call = msg::resource_describe;
  const auto describe = c.driver().cuDevResourceGenerateDesc;
  if (describe == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  if (q.resources.empty() || q.resources.size > groups_max)
    return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  std::vector<CUdevResource> list;
  for (const auto number : q.resources) {
    const auto resource = c.owner().resources.find(number);
    if (!resource) return c.finish<call>(CUDA_ERROR_INVALID_RESOURCE_TYPE, {});
    list.push_back(*resource);
  }
  CUdevResourceDesc descriptor = nullptr;
  const auto result = describe(&descriptor, list.data(), static_cast<unsigned>(list.size()));
  call::reply r;
  if (result == CUDA_SUCCESS) r.descriptor = c.mint<handle_kind::resource_descriptor>(descriptor);
  return c.finish<call>(result, r);
}

outcome green_create(call_context& c, const msg::green_create::request& q) {
  using call = msg::green_create;
  const auto& d = c.driver();
  if (!d.cuGreenCtxCreate || !d.cuCtxFromGreenCtx || !d.cuGreenCtxDestroy)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const auto descriptor = c.native<handle_kind::resource_descriptor>(q.descriptor);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  CUgreenCtx green = nullptr;
  auto result = d.cuGreenCtxCreate(&green, descriptor, q.device, q.flags);
  if (result != CUDA_SUCCESS) return c.finish<call>(result, {});
  CUcontext context = nullptr;
  result = d.cuCtxFromGreenCtx(&context, green);
  call::reply r;
  if (result == CUDA_SUCCESS) {
    // Neither dies with the context that happens to be current.
    r.context = c.owner().handles(handle_kind::context).mint(context);
    r.green = c.owner().handles(handle_kind::green_context).mint(green);
    c.owner().context_epoch.fetch_add(1, std::memory_order_acq_rel);
    if (r.context == 0 || r.green == 0) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) {
    d.cuGreenCtxDestroy(green);
    return c.finish<call>(result, {});
  }
  return c.finish<call>(CUDA_SUCCESS, r);
}

outcome green_destroy(call_context& c, const msg::green_destroy::request& q) {
  using call = msg::green_destroy;
  const auto& d = c.driver();
  auto& w = c.owner();
  const auto green = c.native<handle_kind::green_context>(q.green);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (green == nullptr || !d.cuGreenCtxDestroy || !d.cuCtxFromGreenCtx)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUcontext context = nullptr;
  wire::handle_id context_id = 0;
  if (d.cuCtxFromGreenCtx(&context, green) == CUDA_SUCCESS)
    context_id = w.handles(handle_kind::context).mint(context);  // the one it has
  const auto index = wire::handle_index(context_id);
  const bool own = context_id != 0 && index >= limits::explicit_context_first;
  if (own) w.settle_context(index);
  const auto result = d.cuGreenCtxDestroy(green);
  if (result == CUDA_SUCCESS) {
    c.release<handle_kind::green_context>(q.green);
    if (own) {
      w.context_gone(index);
      c.release<handle_kind::context>(context_id);
    }
  }
  w.context_epoch.fetch_add(1, std::memory_order_acq_rel);
  return c.finish<call>(result, {});
}

outcome green_stream(call_context& c, const msg::green_stream::request& q) {
  using call = msg::green_stream;
  const auto& d = c.driver();
  auto& w = c.owner();
  if (!d.cuGreenCtxStreamCreate || !d.cuCtxFromGreenCtx)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const auto green = c.native<handle_kind::green_context>(q.green);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  CUstream stream = nullptr;
  CUcontext context = nullptr;
  auto result = d.cuCtxFromGreenCtx(&context, green);
  if (result == CUDA_SUCCESS)
    result = d.cuGreenCtxStreamCreate(&stream, green, q.flags, q.priority);
  if (result != CUDA_SUCCESS) return c.finish<call>(result, {});
  const auto context_id = w.handles(handle_kind::context).mint(context);
  if (!w.handles(handle_kind::stream).place(q.stream, stream, {wire::handle_index(context_id), 0}))
    return c.malformed();
  call::reply r;
  unsigned flags = q.flags;
  int priority = q.priority;
  if (d.cuStreamGetFlags) d.cuStreamGetFlags(stream, &flags);
  if (d.cuStreamGetPriority) d.cuStreamGetPriority(stream, &priority);
  r.actual_flags = flags;
  r.actual_priority = priority;
  return c.finish<call>(CUDA_SUCCESS, r);
}

}  // namespace gpuwire::daemon::custom
