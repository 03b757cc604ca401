// SPDX-License-Identifier: Apache-2.0
// The two occupancy calls that take a callback: the search runs here, each step asks the (cached)
// driver.
#include <algorithm>

#include "shim/devices.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/images.hpp"

namespace gpuwire::shim {
namespace {

struct block_search {
  CUfunction function = nullptr;
  CUoccupancyB2DSize shared_bytes_of = nullptr;  // null: the same for every block size
  std::size_t shared_bytes = 0;
  int block_limit = 0;  // 0: none
  unsigned flags = 0;
};

CUresult active_blocks(const block_search& s, int block, int& blocks) {
  msg::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags::request q;
  q.numBlocks_wanted = true;
  q.func = id_of(s.function);
  q.blockSize = block;
  q.dynamicSMemSize = s.shared_bytes_of != nullptr ? s.shared_bytes_of(block) : s.shared_bytes;
  q.flags = s.flags;
  const auto a = cached_call<msg::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags>(q);
  if (a.result == CUDA_SUCCESS) blocks = a.body.numBlocks;
  return a.result;
}

CUresult search_block(const block_search& s, int* min_grid, int* best_block) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (find_function(s.function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (min_grid == nullptr || best_block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const device_record& device = *find_device(self().current()->device);
  msg::cuFuncGetAttribute::request q;
  q.pi_wanted = true;
  q.attrib = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
  q.hfunc = id_of(s.function);
  const auto most = cached_call<msg::cuFuncGetAttribute>(q);
  if (most.result != CUDA_SUCCESS) return most.result;

  const int warp = std::max(1, device.attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
  const int threads_per_processor =
      device.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  int limit =
      std::min<int>(most.body.pi, device.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  if (s.block_limit > 0) limit = std::min(limit, s.block_limit);
  int best_threads = 0, best_blocks = 0;
  *best_block = 0;
  for (int aligned = (limit + warp - 1) / warp * warp;
       aligned > 0 && best_threads < threads_per_processor; aligned -= warp) {
    const int block = std::min(aligned, limit);
    int blocks = 0;
    if (const CUresult r = active_blocks(s, block, blocks); r != CUDA_SUCCESS) return r;
    if (block * blocks <= best_threads) continue;
    best_threads = block * blocks;
    best_blocks = blocks;
    *best_block = block;
  }
  *min_grid = best_blocks * device.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  return CUDA_SUCCESS;
}

}  // namespace

namespace custom {

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize,
                                                   CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   std::size_t dynamicSMemSize, int blockSizeLimit,
                                                   unsigned int flags) {
  return search_block({func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, flags},
                      minGridSize, blockSize);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                          std::size_t dynamicSMemSize, int blockSizeLimit) {
  return search_block({func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0},
                      minGridSize, blockSize);
}

}  // namespace custom
}  // namespace gpuwire::shim
