// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include <algorithm>
#include <cstring>

#include "guard.hpp"
#include "occupancy.hpp"
#include "tables.hpp"

namespace gpuwire::softgpu {
namespace {

void check(const function& which, const launch_shape& wanted, const device& on) {
  const std::uint32_t grid[3] = {wanted.grid.x, wanted.grid.y, wanted.grid.z};
  const std::uint32_t block[3] = {wanted.block.x, wanted.block.y, wanted.block.z};
  for (int axis = 0; axis < 3; ++axis) {
    require(grid[axis] > 0 && grid[axis] <= limits::grid_dim_max[axis]);
    require(block[axis] > 0 && block[axis] <= limits::block_dim_max[axis]);
  }
  const auto& info = which.info();
  require(wanted.block_threads() <= limits::threads_per_block_max);
  require(wanted.block_threads() <= info.threads_per_block_max);
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

// The kernel's own cluster, from its text or set for the function, stands against the launch's.
void settle_cluster(const function& which, launch_shape& wanted) {
  const ptx::dim3 required = required_cluster(which.info(), *which.settings);
  if (required.x != 0) {
    const auto& asked = wanted.cluster;
    require(!wanted.explicit_cluster ||
                (asked.x == required.x && asked.y == required.y && asked.z == required.z),
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
    wanted.cluster = required;
    wanted.explicit_cluster = true;
  }
  const auto& [x, y, z] = wanted.cluster;
  const unsigned most = which.settings->non_portable_cluster ? limits::cluster_blocks_max
                                                             : limits::cluster_blocks_portable;
  require(x > 0 && y > 0 && z > 0 && x <= most && y <= most && z <= most &&
              wanted.cluster_blocks() <= most,
          CUDA_ERROR_INVALID_CLUSTER_SIZE);
  require(wanted.grid.x % x == 0 && wanted.grid.y % y == 0 && wanted.grid.z % z == 0,
          CUDA_ERROR_INVALID_CLUSTER_SIZE);
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

// An event that a launch attribute wants recorded. Recording it after the kernel is later than
// asked for at most, which the attributes allow.
void add_event(std::vector<std::shared_ptr<event>>& events, CUevent handle) {
  events.push_back(event_of(handle));
}

}  // namespace

kernel_launch prepare_launch(CUfunction handle, const launch_shape& wanted, context& in,
                             void** pointers, void** extra) {
  kernel_launch made;
  auto named = kernels().find(reinterpret_cast<CUkernel>(handle));
  if (named) made.kernel = named->handle;
  made.which = named ? function_of_kernel(*named, in) : function_of(handle);
  require(made.which->owner.get() == &in, CUDA_ERROR_INVALID_HANDLE);
  require(pointers == nullptr || extra == nullptr);
  made.shape = wanted;
  check_launch(made);
  made.arguments = extra != nullptr ? arguments_from_extra(made.which->info(), extra)
                                    : arguments_from_pointers(made.which->info(), pointers);
  return made;
}

void check_launch(kernel_launch& which) {
  settle_cluster(*which.which, which.shape);
  check(*which.which, which.shape, which.which->owner->on);
}

std::shared_ptr<kernel_run> make_run(const kernel_launch& which,
                                     const std::shared_ptr<kernel_heap>& heap) {
  const function& function = *which.which;
  context& in = *function.owner;
  auto run = std::make_shared<kernel_run>();
  run->launch.code = function.in->code->code;
  run->launch.kernel = function.index;
  run->launch.grid = which.shape.grid;
  run->launch.block = which.shape.block;
  run->launch.cluster = which.shape.cluster;
  run->launch.explicit_cluster = which.shape.explicit_cluster;
  run->launch.dynamic_shared_bytes = which.shape.dynamic_shared_bytes;
  run->launch.arguments = which.arguments;
  run->launch.variable_addresses = function.in->variable_addresses;
  run->launch.device_memory = &in.memory;
  run->launch.heap.allocate = [heap](std::uint64_t bytes) { return heap->allocate(bytes); };
  run->launch.heap.free = [heap](std::uint64_t address) { heap->release(address); };
  run->keep_alive = function.in;
  run->block_count = which.shape.block_count() / which.shape.cluster_blocks();
  run->launch.cooperative = run->cooperative = which.shape.cooperative;
  const unsigned per_multiprocessor =
      std::max(1u, resident_blocks(function.info(), which.shape.block_threads(),
                                   which.shape.dynamic_shared_bytes));
  run->resident_max = std::max<std::uint64_t>(
      1, std::uint64_t{per_multiprocessor} * in.on.multiprocessors / which.shape.cluster_blocks());
  return run;
}

void apply_attribute(const CUlaunchAttribute& attribute, launch_shape& wanted,
                     std::vector<std::shared_ptr<event>>& events) {
  const auto& value = attribute.value;
  switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      wanted.cooperative = value.cooperative != 0;
      return;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      wanted.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
      wanted.explicit_cluster = true;
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

}  // namespace gpuwire::softgpu
