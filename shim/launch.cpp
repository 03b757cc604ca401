// SPDX-License-Identifier: Apache-2.0
// Launches. The first launch of a configuration waits for the driver's verdict, later ones are
// posted: the parameters go from the program's memory to the send ring by way of one block on the
// thread, without an allocation.
#include "shim/attributes.hpp"
#include "shim/contexts.hpp"
#include "shim/devices.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/images.hpp"
#include "shim/log.hpp"

namespace gpuwire::shim {
namespace {

struct launch_request {
  CUfunction function = nullptr;
  unsigned grid[3] = {}, block[3] = {};
  unsigned shared_bytes = 0;
  CUstream stream = nullptr;
  bool cooperative = false;
  void** parameters = nullptr;
  void** extra = nullptr;
  const CUlaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

// What the driver says about the shape before it looks at the function.
CUresult check_shape(const launch_request& l, const device_record& device) {
  for (int i = 0; i < 3; ++i) {
    if (l.grid[i] == 0 || l.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
    if (l.grid[i] > static_cast<unsigned>(device.attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i)))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// The argument block: packed from pointers, or the program's own. A block larger than the thread's
// goes into `large`.
struct parameter_block {
  wire::bytes_view bytes;
  std::vector<std::byte> large;
};

CUresult find_parameters(const launch_request& l, const kernel_details& d, thread_state& t,
                         parameter_block& out) {
  if (l.parameters != nullptr && l.extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (l.extra != nullptr) {
    const extra_block block = read_extra(l.extra);
    if (!block.valid) return CUDA_ERROR_INVALID_VALUE;
    out.bytes = {block.data, block.bytes};
    return CUDA_SUCCESS;
  }
  std::byte* block = t.parameters.data();
  if (d.parameter_bytes > t.parameters.size()) {
    out.large.resize(d.parameter_bytes);
    block = out.large.data();
  }
  if (!pack_parameters(d.parameters, l.parameters, block)) return CUDA_ERROR_INVALID_VALUE;
  out.bytes = {block, d.parameter_bytes};
  return CUDA_SUCCESS;
}

struct encoded_attributes {
  std::vector<msg::launch_attribute> list;
  std::array<attribute_values, attributes_max> storage;
  std::vector<std::byte> key;  // their bytes, for the cache of verdicts
  bool records_event = false;
};

CUresult encode_attributes(const launch_request& l, encoded_attributes& out) {
  if (l.attribute_count > attributes_max) return CUDA_ERROR_INVALID_VALUE;
  if (l.attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < l.attribute_count; ++i) {
    const CUlaunchAttribute& attribute = l.attributes[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_IGNORE) continue;
    msg::launch_attribute one;
    if (!encode_attribute(attribute.id, attribute.value, one, out.storage[i]))
      return refuse("a launch attribute of unknown kind");
    out.records_event = out.records_event || one.handle != 0;
    const auto at = out.key.size();
    out.key.resize(at + wire::encoded_bytes(one));
    wire::encoder encoder(out.key.data() + at, out.key.size() - at);
    wire::encode_into(one, encoder);
    out.list.push_back(one);
  }
  return CUDA_SUCCESS;
}

CUresult send(const launch_request& l, const stream_target& target, kernel_record& kernel,
              const parameter_block& parameters, encoded_attributes* attributes) {
  msg::launch::request q;
  q.function = id_of(l.function);
  q.grid_x = l.grid[0];
  q.grid_y = l.grid[1];
  q.grid_z = l.grid[2];
  q.block_x = l.block[0];
  q.block_y = l.block[1];
  q.block_z = l.block[2];
  q.shared_bytes = l.shared_bytes;
  q.stream = target.id;
  q.cooperative = l.cooperative;
  q.parameters = parameters.bytes;

  launch_configuration c;
  c.block_x = q.block_x;
  c.block_y = q.block_y;
  c.block_z = q.block_z;
  c.shared_bytes = q.shared_bytes;
  c.context = self().context_index();
  c.parameter_bytes = static_cast<std::uint32_t>(q.parameters.size);
  static constexpr std::byte cooperative_mark[1] = {};
  if (l.cooperative) c.attributes = cooperative_mark;
  if (attributes != nullptr) {
    q.attributes = std::move(attributes->list);
    c.attributes = attributes->key;
  }
  c.grid_x = q.grid_x;
  c.grid_y = q.grid_y;
  c.grid_z = q.grid_z;
  const auto key = configuration_key(c);
  if (kernel.accepted.knows(key)) return post_operation<msg::launch>(*target.credit, 0, q);
  const CUresult r = call_operation<msg::launch>(*target.credit, 0, q).result;
  if (r == CUDA_SUCCESS) kernel.accepted.accept(key);
  return r;
}

// With GPUWIRE_LOG=debug: what was launched when it was refused.
CUresult say_refusal(const launch_request& l, CUresult r, const char* by) {
  if (r == CUDA_SUCCESS || !debug_log_wanted()) return r;
  const kernel_record* kernel = find_function(l.function);
  const kernel_details* d =
      kernel != nullptr ? kernel->details.load(std::memory_order_acquire) : nullptr;
  log_debug(
      "a launch is refused by the {} with {}: {}, grid {}x{}x{}, block {}x{}x{}, {} bytes shared, "
      "{} attributes, {} parameters in {} bytes{}",
      by, static_cast<int>(r), d != nullptr ? d->name : "no kernel", l.grid[0], l.grid[1],
      l.grid[2], l.block[0], l.block[1], l.block[2], l.shared_bytes, l.attribute_count,
      d != nullptr ? d->parameters.size() : 0, d != nullptr ? d->parameter_bytes : 0,
      l.extra != nullptr ? ", as one block" : "");
  return r;
}

CUresult launch(const launch_request& l) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  kernel_record* kernel = find_function(l.function);
  const kernel_details* details =
      kernel != nullptr ? kernel->details.load(std::memory_order_acquire) : nullptr;
  if (details == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto target = find_stream(l.stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  thread_state& t = self();
  if (const CUresult r = check_shape(l, *find_device(t.current()->device)); r != CUDA_SUCCESS)
    return say_refusal(l, r, "client for its shape");
  if (details->parameters.empty() && l.parameters != nullptr) details = complete_layout(*kernel);
  parameter_block parameters;
  if (const CUresult r = find_parameters(l, *details, t, parameters); r != CUDA_SUCCESS)
    return say_refusal(l, r, "client for its parameters");
  note_host_addresses(parameters.bytes.data, static_cast<std::size_t>(parameters.bytes.size));
  if (l.attribute_count == 0)
    return say_refusal(l, send(l, target, *kernel, parameters, nullptr), "server");
  encoded_attributes attributes;
  if (const CUresult r = encode_attributes(l, attributes); r != CUDA_SUCCESS)
    return say_refusal(l, r, "client for its attributes");
  return say_refusal(l, send(l, target, *kernel, parameters, &attributes), "server");
}

CUresult clusters(int* answer, CUfunction function, const CUlaunchConfig* config, bool active) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (find_function(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (answer == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto target = find_stream(config->hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  launch_request l;
  l.attributes = config->attrs;
  l.attribute_count = config->numAttrs;
  encoded_attributes attributes;
  if (l.attribute_count != 0)
    if (const CUresult r = encode_attributes(l, attributes); r != CUDA_SUCCESS) return r;
  msg::occupancy_clusters::request q;
  q.function = id_of(function);
  q.grid_x = config->gridDimX;
  q.grid_y = config->gridDimY;
  q.grid_z = config->gridDimZ;
  q.block_x = config->blockDimX;
  q.block_y = config->blockDimY;
  q.block_z = config->blockDimZ;
  q.shared_bytes = config->sharedMemBytes;
  q.stream = target.id;
  q.attributes = std::move(attributes.list);
  q.active = active;
  const auto a = cached_call<msg::occupancy_clusters>(q);
  if (a.result == CUDA_SUCCESS) *answer = a.body.answer;
  return a.result;
}

}  // namespace

namespace custom {

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                        void** kernelParams, void** extra) {
  launch_request l;
  l.function = f;
  l.grid[0] = gridDimX, l.grid[1] = gridDimY, l.grid[2] = gridDimZ;
  l.block[0] = blockDimX, l.block[1] = blockDimY, l.block[2] = blockDimZ;
  l.shared_bytes = sharedMemBytes;
  l.stream = hStream;
  l.parameters = kernelParams;
  l.extra = extra;
  return launch(l);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX,
                                   unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream,
                                   void** kernelParams) {
  launch_request l;
  l.function = f;
  l.grid[0] = gridDimX, l.grid[1] = gridDimY, l.grid[2] = gridDimZ;
  l.block[0] = blockDimX, l.block[1] = blockDimY, l.block[2] = blockDimZ;
  l.shared_bytes = sharedMemBytes;
  l.stream = hStream;
  l.cooperative = true;
  l.parameters = kernelParams;
  return launch(l);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                          void** extra) {
  if (config == nullptr)
    return need_context() != CUDA_SUCCESS ? need_context() : CUDA_ERROR_INVALID_VALUE;
  launch_request l;
  l.function = f;
  l.grid[0] = config->gridDimX, l.grid[1] = config->gridDimY, l.grid[2] = config->gridDimZ;
  l.block[0] = config->blockDimX, l.block[1] = config->blockDimY, l.block[2] = config->blockDimZ;
  l.shared_bytes = config->sharedMemBytes;
  l.stream = config->hStream;
  l.parameters = kernelParams;
  l.extra = extra;
  l.attributes = config->attrs;
  l.attribute_count = config->numAttrs;
  return launch(l);
}

CUresult cuOccupancyMaxPotentialClusterSize(int* clusterSize, CUfunction func,
                                            const CUlaunchConfig* config) {
  return clusters(clusterSize, func, config, false);
}
CUresult cuOccupancyMaxActiveClusters(int* numClusters, CUfunction func,
                                      const CUlaunchConfig* config) {
  return clusters(numClusters, func, config, true);
}

}  // namespace custom
}  // namespace gpuwire::shim
