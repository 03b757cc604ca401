// SPDX-License-Identifier: Apache-2.0
// Kernel launches, and what is asked with the description of one. The client has packed the
// arguments as the kernel's layout wants them; they go to the driver as one block.
#include "daemon/attributes.hpp"
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"

namespace gpuwire::daemon::custom {
namespace {

template <class Request>
CUlaunchConfig configuration(const Request& q, CUstream stream,
                             std::vector<CUlaunchAttribute>& attributes) {
  CUlaunchConfig config{};
  config.gridDimX = q.grid_x;
  config.gridDimY = q.grid_y;
  config.gridDimZ = q.grid_z;
  config.blockDimX = q.block_x;
  config.blockDimY = q.block_y;
  config.blockDimZ = q.block_z;
  config.sharedMemBytes = q.shared_bytes;
  config.hStream = stream;
  config.attrs = attributes.empty() ? nullptr : attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  return config;
}

CUresult issue(call_context& c, const msg::launch::request& q, CUstream stream) {
  const auto& d = c.driver();
  const auto function = c.function(q.function);
  if (c.failed()) return c.failure();
  std::size_t parameter_bytes = q.parameters.size;
  void* block[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(q.parameters.data),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &parameter_bytes, CU_LAUNCH_PARAM_END};
  void** extra = parameter_bytes != 0 ? block : nullptr;
  if (q.attributes.empty() && !q.cooperative) {
    return d.cuLaunchKernel(function, q.grid_x, q.grid_y, q.grid_z, q.block_x, q.block_y, q.block_z,
                            q.shared_bytes, stream, nullptr, extra);
  }
  if (d.cuLaunchKernelEx == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  std::vector<CUlaunchAttribute> attributes;
  if (const auto problem = decode_attributes(c, q.attributes, attributes); problem != CUDA_SUCCESS)
    return problem;
  if (q.cooperative) {
    // The cooperative call takes no argument block; the attribute means the same.
    auto& cooperative = attributes.emplace_back();
    cooperative = {};
    cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    cooperative.value.cooperative = 1;
  }
  const auto config = configuration(q, stream, attributes);
  return d.cuLaunchKernelEx(&config, function, nullptr, extra);
}

}  // namespace

outcome launch(call_context& c, const msg::launch::request& q) {
  const auto s = c.stream_of(q.stream);
  const auto result = c.failed() ? c.failure() : issue(c, q, s.native);
  c.count_operation(q.stream, s);
  return c.finish<msg::launch>(result, {});
}

outcome occupancy_clusters(call_context& c, const msg::occupancy_clusters::request& q) {
  using call = msg::occupancy_clusters;
  const auto& d = c.driver();
  const auto stream = c.stream(q.stream);
  const auto function = c.function(q.function);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  std::vector<CUlaunchAttribute> attributes;
  if (const auto problem = decode_attributes(c, q.attributes, attributes); problem != CUDA_SUCCESS)
    return c.finish<call>(problem, {});
  const auto config = configuration(q, stream, attributes);
  const auto ask = q.active ? d.cuOccupancyMaxActiveClusters : d.cuOccupancyMaxPotentialClusterSize;
  if (ask == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  int answer = 0;
  const auto result = ask(&answer, function, &config);
  call::reply r;
  r.answer = answer;
  return c.finish<call>(result, r);
}

outcome stream_attribute_get(call_context& c, const msg::stream_attribute_get::request& q) {
  using call = msg::stream_attribute_get;
  const auto stream = c.stream(q.stream);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (c.driver().cuStreamGetAttribute == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUstreamAttrValue value{};
  if (q.attribute >= CU_LAUNCH_ATTRIBUTE_MAX) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  const auto id = static_cast<CUstreamAttrID>(q.attribute);
  auto result = c.driver().cuStreamGetAttribute(stream, id, &value);
  call::reply r;
  attribute_values storage{};
  msg::launch_attribute out;
  if (result == CUDA_SUCCESS) {
    if (encode_attribute(id, value, out, storage))
      r.value.push_back(out);
    else
      result = CUDA_ERROR_NOT_SUPPORTED;
  }
  return c.finish<call>(result, r);
}

outcome stream_attribute_set(call_context& c, const msg::stream_attribute_set::request& q) {
  using call = msg::stream_attribute_set;
  const auto stream = c.stream(q.stream);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (q.value.size() != 1) return c.malformed();
  if (c.driver().cuStreamSetAttribute == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUlaunchAttribute attribute;
  if (const auto problem = decode_attribute(c, q.value[0], attribute); problem != CUDA_SUCCESS)
    return c.finish<call>(problem, {});
  return c.finish<call>(c.driver().cuStreamSetAttribute(stream, attribute.id, &attribute.value),
                        {});
}

}  // namespace gpuwire::daemon::custom
