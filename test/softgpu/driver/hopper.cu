// SPDX-License-Identifier: Apache-2.0
// Kernels that need compute capability 9.0: clusters, and conditions of graphs.
#include <cooperative_groups.h>

namespace groups = cooperative_groups;

extern "C" {
// Each block reads its neighbour's shared memory and adds to the first block's.
__global__ void neighbours(int* out) {
  __shared__ int own;
  auto cluster = groups::this_cluster();
  if (threadIdx.x == 0) own = cluster.block_rank() * 100 + blockIdx.x;
  cluster.sync();
  const int next = (cluster.block_rank() + 1) % cluster.num_blocks();
  const int seen = *cluster.map_shared_rank(&own, next);
  cluster.sync();
  atomicAdd(cluster.map_shared_rank(&own, 0), 1000);
  cluster.sync();
  if (threadIdx.x == 0) {
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    out[block * 4] = seen;
    out[block * 4 + 1] = own;
    out[block * 4 + 2] = cluster.num_blocks();
    out[block * 4 + 3] = cluster.dim_blocks().x * 100 + cluster.block_index().x * 10 + cluster.block_index().y;
  }
  cluster.sync();
}

__global__ void __cluster_dims__(2, 1, 1) pairs(int* out) {
  auto cluster = groups::this_cluster();
  out[blockIdx.x] = cluster.num_blocks() * 10 + cluster.block_rank();
  cluster.sync();
}

// The barrier of a cluster of one block is one of its threads.
__global__ void alone(int* out) {
  __shared__ int last;
  if (threadIdx.x == blockDim.x - 1) last = 7;
  groups::this_cluster().sync();
  if (threadIdx.x == 0) *out = last;
}

__global__ void count_and_decide(cudaGraphConditionalHandle handle, int* value, int limit) {
  *value += 1;
  cudaGraphSetConditional(handle, *value < limit ? 1 : 0);
}

__global__ void decide(cudaGraphConditionalHandle handle, unsigned value) { cudaGraphSetConditional(handle, value); }

__global__ void add(int* value, int amount) { *value += amount; }

__device__ __noinline__ int recurse(int depth, volatile int* out) {
  volatile int room[64];
  room[depth % 64] = depth;
  return depth < 0 ? 0 : recurse(depth + 1, out) + room[depth % 64];
}
__global__ void overflow(int* out) { *out = recurse(1, out); }

__global__ void call(int (*function)(int), int* out) { *out = function(1); }
}
