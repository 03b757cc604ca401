// SPDX-License-Identifier: Apache-2.0
// A kernel launch, checked and with its arguments copied: run at once by cuLaunchKernel, kept by
// the kernel nodes of graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compute.hpp"
#include "context.hpp"
#include "module.hpp"

namespace gpuwire::softgpu {

struct launch_shape {
  ptx::dim3 grid;
  ptx::dim3 block;
  std::uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  ptx::dim3 cluster;              // in blocks
  bool explicit_cluster = false;  // asked for, by the launch or the kernel

  std::uint64_t block_threads() const { return std::uint64_t{block.x} * block.y * block.z; }
  std::uint64_t block_count() const { return std::uint64_t{grid.x} * grid.y * grid.z; }
  std::uint64_t cluster_blocks() const { return std::uint64_t{cluster.x} * cluster.y * cluster.z; }
};

// Without a cluster.
inline launch_shape make_shape(ptx::dim3 grid, ptx::dim3 block, std::uint32_t dynamic_shared_bytes,
                               bool cooperative = false) {
  launch_shape made;
  made.grid = grid;
  made.block = block;
  made.dynamic_shared_bytes = dynamic_shared_bytes;
  made.cooperative = cooperative;
  return made;
}

struct kernel_launch {
  std::shared_ptr<function> which;
  CUkernel kernel = nullptr;  // when the caller named the function by its kernel
  launch_shape shape;
  std::vector<std::byte> arguments;
};

// Refuses what the driver refuses before it launches. A kernel stands for its function in `in`.
kernel_launch prepare_launch(CUfunction handle, const launch_shape& wanted, context& in,
                             void** pointers, void** extra);
// The checks of prepare_launch alone, after the shape was changed. Gives it the cluster that the
// kernel requires.
void check_launch(kernel_launch& which);

// One run of it, in the context of the function. Takes no lock, so `heap` is found before.
std::shared_ptr<kernel_run> make_run(const kernel_launch& which,
                                     const std::shared_ptr<kernel_heap>& heap);

// Which of a launch's attributes change what it does. `events` are to be recorded after it:
// recording later than asked for at most, which the attributes allow.
void apply_attribute(const CUlaunchAttribute& attribute, launch_shape& wanted,
                     std::vector<std::shared_ptr<event>>& events);

}  // namespace gpuwire::softgpu
