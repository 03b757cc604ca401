// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device.hpp"
#include "guard.hpp"
#include "module.hpp"
#include "occupancy.hpp"

namespace gpuwire::softgpu {
namespace {

constexpr std::uint64_t register_unit = 256;
constexpr std::uint64_t shared_unit = 128;

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

std::uint64_t warps_of(std::uint64_t threads) {
  return (threads + limits::warp_threads - 1) / limits::warp_threads;
}

// As resident_blocks, but for shared memory.
std::uint64_t blocks_by_threads(const ptx::kernel_info& kernel, std::uint64_t block_threads) {
  if (block_threads == 0 || block_threads > kernel.threads_per_block_max) return 0;
  const std::uint64_t warps = warps_of(block_threads);
  const std::uint64_t warp_registers = round_up(
      std::max<std::uint64_t>(kernel.register_count, 1) * limits::warp_threads, register_unit);
  // A kernel with more registers than the model's register file would never run: it then counts as
  // one block.
  const std::uint64_t by_registers =
      std::max<std::uint64_t>(limits::registers_per_multiprocessor / warp_registers / warps, 1);
  const std::uint64_t by_warps = limits::threads_per_multiprocessor / limits::warp_threads / warps;
  return std::min({by_registers, by_warps, std::uint64_t{limits::blocks_per_multiprocessor}});
}

}  // namespace

unsigned resident_blocks(const ptx::kernel_info& kernel, std::uint64_t block_threads,
                         std::uint64_t dynamic_shared_bytes) {
  const std::uint64_t shared = kernel.static_shared_bytes + dynamic_shared_bytes;
  if (shared > limits::shared_bytes_per_block_optin) return 0;
  const std::uint64_t by_shared =
      limits::shared_bytes_per_multiprocessor /
      round_up(shared + limits::shared_bytes_reserved_per_block, shared_unit);
  return static_cast<unsigned>(std::min(blocks_by_threads(kernel, block_threads), by_shared));
}

}  // namespace gpuwire::softgpu

using namespace gpuwire::softgpu;

namespace {

constexpr unsigned flags_known = CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE;

CUresult active_blocks(int* blocks, CUfunction handle, int block_threads,
                       std::size_t dynamic_shared_bytes, unsigned flags) {
  return with_context([&](context&) {
    auto which = function_of(handle);
    require(blocks != nullptr && block_threads > 0 && (flags & ~flags_known) == 0);
    *blocks = static_cast<int>(resident_blocks(
        which->info(), static_cast<std::uint64_t>(block_threads), dynamic_shared_bytes));
    return CUDA_SUCCESS;
  });
}

// The block size with which the most threads are resident; the largest such, as the driver chooses.
CUresult potential_block(int* grid_min, int* block_threads, CUfunction handle,
                         CUoccupancyB2DSize shared_of_block, std::size_t dynamic_shared_bytes,
                         int limit, unsigned flags) {
  return with_context([&](context& current) {
    auto which = function_of(handle);
    require(grid_min != nullptr && block_threads != nullptr && limit >= 0 &&
            (flags & ~flags_known) == 0);
    int largest = static_cast<int>(which->info().threads_per_block_max);
    if (limit > 0) largest = std::min(largest, limit);
    std::uint64_t best_threads = 0;
    unsigned best_blocks = 0;
    int best = 0;
    const int step = static_cast<int>(limits::warp_threads);
    for (int size = largest; size > 0; size = (size - 1) / step * step) {
      const std::size_t shared =
          shared_of_block != nullptr ? shared_of_block(size) : dynamic_shared_bytes;
      const unsigned blocks =
          resident_blocks(which->info(), static_cast<std::uint64_t>(size), shared);
      const std::uint64_t threads = std::uint64_t{blocks} * static_cast<std::uint64_t>(size);
      if (threads > best_threads) {
        best_threads = threads;
        best_blocks = blocks;
        best = size;
      }
    }
    *block_threads = best;
    *grid_min = static_cast<int>(best_blocks * current.on.multiprocessors);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle,
                                                     int block_threads,
                                                     size_t dynamic_shared_bytes) {
  return active_blocks(blocks, handle, block_threads, dynamic_shared_bytes, 0);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle,
                                                              int block_threads,
                                                              size_t dynamic_shared_bytes,
                                                              unsigned int flags) {
  return active_blocks(blocks, handle, block_threads, dynamic_shared_bytes, flags);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid_min, int* block_threads, CUfunction handle,
                                          CUoccupancyB2DSize shared_of_block,
                                          size_t dynamic_shared_bytes, int limit) {
  return potential_block(grid_min, block_threads, handle, shared_of_block, dynamic_shared_bytes,
                         limit, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid_min, int* block_threads,
                                                   CUfunction handle,
                                                   CUoccupancyB2DSize shared_of_block,
                                                   size_t dynamic_shared_bytes, int limit,
                                                   unsigned int flags) {
  return potential_block(grid_min, block_threads, handle, shared_of_block, dynamic_shared_bytes,
                         limit, flags);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle, int blocks,
                                                 int block_threads) {
  return with_context([&](context&) {
    auto which = function_of(handle);
    require(bytes != nullptr && blocks > 0 && block_threads > 0);
    require(resident_blocks(which->info(), static_cast<std::uint64_t>(block_threads), 0) >=
            static_cast<unsigned>(blocks));
    const std::uint64_t share = limits::shared_bytes_per_multiprocessor /
                                static_cast<unsigned>(blocks) / shared_unit * shared_unit;
    const std::uint64_t taken =
        which->info().static_shared_bytes + limits::shared_bytes_reserved_per_block;
    const std::uint64_t most =
        limits::shared_bytes_per_block_optin - which->info().static_shared_bytes;
    *bytes = share > taken ? std::min(share - taken, most) : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuOccupancyMaxPotentialClusterSize(int* blocks, CUfunction handle,
                                            const CUlaunchConfig* config) {
  return with_context([&](context&) {
    auto which = function_of(handle);
    require(blocks != nullptr && config != nullptr);
    *blocks =
        static_cast<int>(which->settings->non_portable_cluster ? limits::cluster_blocks_max
                                                               : limits::cluster_blocks_portable);
    return CUDA_SUCCESS;
  });
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle,
                                      const CUlaunchConfig* config) {
  return with_context([&](context& current) {
    auto which = function_of(handle);
    require(clusters != nullptr && config != nullptr &&
            (config->numAttrs == 0 || config->attrs != nullptr));
    ptx::dim3 cluster = required_cluster(which->info(), *which->settings);
    for (unsigned at = 0; at < config->numAttrs; ++at) {
      const auto& one = config->attrs[at];
      if (one.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
      cluster = {one.value.clusterDim.x, one.value.clusterDim.y, one.value.clusterDim.z};
    }
    const std::uint64_t size =
        cluster.x == 0 ? 1 : std::uint64_t{cluster.x} * cluster.y * cluster.z;
    require(size > 0 && size <= limits::cluster_blocks_max, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    const std::uint64_t threads =
        std::uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ;
    const std::uint64_t blocks =
        std::uint64_t{resident_blocks(which->info(), threads, config->sharedMemBytes)} *
        current.on.multiprocessors;
    *clusters = static_cast<int>(blocks / size);
    return CUDA_SUCCESS;
  });
}
