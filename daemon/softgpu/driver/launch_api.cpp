// SPDX-License-Identifier: Apache-2.0
// Kernel launches: checks, arguments, attributes.
#include <algorithm>
#include <cstring>

#include "compute.hpp"
#include "context.hpp"
#include "guard.hpp"
#include "module.hpp"
#include "occupancy.hpp"
#include "scheduler.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

struct shape {
  ptx::dim3 grid;
  ptx::dim3 block;
  std::uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;

  std::uint64_t block_threads() const { return std::uint64_t{block.x} * block.y * block.z; }
  std::uint64_t block_count() const { return std::uint64_t{grid.x} * grid.y * grid.z; }
};

void check(const function& which, const shape& wanted, const device& on) {
  const std::uint32_t grid[3] = {wanted.grid.x, wanted.grid.y, wanted.grid.z};
  const std::uint32_t block[3] = {wanted.block.x, wanted.block.y, wanted.block.z};
  for (int axis = 0; axis < 3; ++axis) {
    require(grid[axis] > 0 && grid[axis] <= limits::grid_dim_max[axis]);
    require(block[axis] > 0 && block[axis] <= limits::block_dim_max[axis]);
  }
  const auto& info = which.info();
  require(wanted.block_threads() <= limits::threads_per_block_max);
  require(wanted.block_threads() <= info.threads_per_block_max, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  require(wanted.dynamic_shared_bytes <=
          static_cast<std::uint32_t>(which.settings->dynamic_shared_bytes_max.load()));
  require(std::uint64_t{info.static_shared_bytes} + wanted.dynamic_shared_bytes <=
              limits::shared_bytes_per_block_optin,
          CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  if (wanted.cooperative) {
    const std::uint64_t resident =
        std::uint64_t{resident_blocks(info, wanted.block_threads(), wanted.dynamic_shared_bytes)} *
        on.multiprocessors;
    require(wanted.block_count() <= resident, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  }
}

std::vector<std::byte> arguments_from_pointers(const ptx::kernel_info& info, void** pointers) {
  std::vector<std::byte> bytes(info.parameter_bytes);
  require(info.parameters.empty() || pointers != nullptr);
  for (std::size_t at = 0; at < info.parameters.size(); ++at) {
    const auto& parameter = info.parameters[at];
    require(pointers[at] != nullptr && parameter.offset + parameter.bytes <= bytes.size());
    std::memcpy(bytes.data() + parameter.offset, pointers[at], parameter.bytes);
  }
  return bytes;
}

std::vector<std::byte> arguments_from_extra(const ptx::kernel_info& info, void** extra) {
  const void* buffer = nullptr;
  const std::size_t* buffer_bytes = nullptr;
  constexpr int entries_max = 8;
  int at = 0;
  for (; at < entries_max && extra[at] != CU_LAUNCH_PARAM_END; at += 2) {
    if (extra[at] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = extra[at + 1];
    } else if (extra[at] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      buffer_bytes = static_cast<const std::size_t*>(extra[at + 1]);
    } else {
      refuse(CUDA_ERROR_INVALID_VALUE);
    }
  }
  require(at < entries_max);
  require(info.parameter_bytes == 0 || (buffer != nullptr && buffer_bytes != nullptr));
  // The buffer may end with the padding of a structure, but not before the last parameter.
  std::uint32_t needed = 0;
  for (const auto& parameter : info.parameters)
    needed = std::max(needed, parameter.offset + parameter.bytes);
  require(buffer_bytes == nullptr || *buffer_bytes >= needed);
  std::vector<std::byte> bytes(info.parameter_bytes);
  if (!bytes.empty())
    std::memcpy(bytes.data(), buffer, std::min<std::size_t>(*buffer_bytes, bytes.size()));
  return bytes;
}

std::shared_ptr<kernel_run> make_run(const std::shared_ptr<function>& which, const shape& wanted,
                                     context& in, std::vector<std::byte> arguments) {
  auto run = std::make_shared<kernel_run>();
  run->launch.code = which->in->code->code;
  run->launch.kernel = which->index;
  run->launch.grid = wanted.grid;
  run->launch.block = wanted.block;
  run->launch.dynamic_shared_bytes = wanted.dynamic_shared_bytes;
  run->launch.arguments = std::move(arguments);
  run->launch.variable_addresses = which->in->variable_addresses;
  run->launch.device_memory = &in.memory;
  auto heap = in.heap();
  run->launch.heap.allocate = [heap](std::uint64_t bytes) { return heap->allocate(bytes); };
  run->launch.heap.free = [heap](std::uint64_t address) { heap->release(address); };
  run->keep_alive = which->in;
  run->block_count = wanted.block_count();
  run->launch.cooperative = run->cooperative = wanted.cooperative;
  const unsigned per_multiprocessor = std::max(
      1u, resident_blocks(which->info(), wanted.block_threads(), wanted.dynamic_shared_bytes));
  run->resident_max = std::uint64_t{per_multiprocessor} * in.on.multiprocessors;
  return run;
}

void launch(CUfunction handle, const shape& wanted, CUstream hStream, void** pointers,
            void** extra) {
  auto on = stream_of(hStream);
  auto named = kernels().find(reinterpret_cast<CUkernel>(handle));
  // A kernel stands for its function in the context of the stream.
  auto which = named ? function_of_kernel(*named, *on->in) : function_of(handle);
  require(which->owner.get() == on->in, CUDA_ERROR_INVALID_HANDLE);
  require(pointers == nullptr || extra == nullptr);
  check(*which, wanted, on->in->on);
  auto arguments = extra != nullptr ? arguments_from_extra(which->info(), extra)
                                    : arguments_from_pointers(which->info(), pointers);
  operation what;
  what.what = operation::kind::kernel;
  what.kernel = make_run(which, wanted, *on->in, std::move(arguments));
  what.kernel->on = on;
  scheduler::instance().submit(on, std::move(what));
  on->in->flush_print();
}

// An event that a launch attribute wants recorded. Recording it after the kernel is later than
// asked for at most, which the attributes allow.
void add_event(std::vector<std::shared_ptr<event>>& events, CUevent handle) {
  events.push_back(event_of(handle));
}

void apply(const CUlaunchAttribute& attribute, shape& wanted,
           std::vector<std::shared_ptr<event>>& events) {
  const auto& value = attribute.value;
  switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      wanted.cooperative = value.cooperative != 0;
      return;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      require(value.clusterDim.x > 0 && value.clusterDim.y > 0 && value.clusterDim.z > 0);
      require(value.clusterDim.x == 1 && value.clusterDim.y == 1 && value.clusterDim.z == 1,
              CUDA_ERROR_NOT_SUPPORTED);
      return;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      add_event(events, value.programmaticEvent.event);
      return;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      add_event(events, value.launchCompletionEvent.event);
      return;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      require(value.deviceUpdatableKernelNode.deviceUpdatable == 0);
      return;
    // Hints about speed: a kernel that starts when the one before has ended satisfies all of them.
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return;
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace

CUresult cuLaunchKernel(CUfunction f, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
                        unsigned int blockX, unsigned int blockY, unsigned int blockZ,
                        unsigned int shared_bytes, CUstream stream, void** pointers, void** extra) {
  return with_context([&](context&) {
    launch(f, {{gridX, gridY, gridZ}, {blockX, blockY, blockZ}, shared_bytes, false}, stream,
           pointers, extra);
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridX, unsigned int gridY,
                                   unsigned int gridZ, unsigned int blockX, unsigned int blockY,
                                   unsigned int blockZ, unsigned int shared_bytes, CUstream stream,
                                   void** pointers) {
  return with_context([&](context&) {
    launch(f, {{gridX, gridY, gridZ}, {blockX, blockY, blockZ}, shared_bytes, true}, stream,
           pointers, nullptr);
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** pointers,
                          void** extra) {
  return with_context([&](context&) {
    require(config != nullptr && (config->numAttrs == 0 || config->attrs != nullptr));
    shape wanted{{config->gridDimX, config->gridDimY, config->gridDimZ},
                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                 config->sharedMemBytes,
                 false};
    std::vector<std::shared_ptr<event>> events;
    for (unsigned at = 0; at < config->numAttrs; ++at) apply(config->attrs[at], wanted, events);
    launch(f, wanted, config->hStream, pointers, extra);
    for (const auto& mark : events) scheduler::instance().record(stream_of(config->hStream), *mark);
    return CUDA_SUCCESS;
  });
}
