// SPDX-License-Identifier: Apache-2.0
// A histogram with atomics in shared and in global memory, and a maximum by compare-and-swap.
#include <algorithm>
#include <vector>

#include "check.hpp"

constexpr int bins = 64;

__global__ void count_values(const unsigned* values, int count, unsigned* histogram) {
  __shared__ unsigned local[bins];
  for (int b = threadIdx.x; b < bins; b += blockDim.x) local[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    atomicAdd(&local[values[i] % bins], 1u);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x) atomicAdd(&histogram[b], local[b]);
}

__global__ void largest(const unsigned* values, int count, unsigned* by_max, unsigned* by_swap) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  atomicMax(by_max, values[i]);
  unsigned seen = *by_swap;
  while (seen < values[i]) {
    unsigned before = atomicCAS(by_swap, seen, values[i]);
    if (before == seen) break;
    seen = before;
  }
}

int main() {
  const int count = 20'000;
  std::vector<unsigned> values(count), expected(bins), histogram(bins);
  unsigned state = 12'345, maximum = 0;
  for (unsigned& value : values) {
    state = state * 1664525u + 1013904223u;
    value = state >> 8;
    ++expected[value % bins];
    maximum = std::max(maximum, value);
  }

  unsigned *device_values, *device_histogram, *device_largest, found[2];
  CHECK(cudaMalloc(&device_values, count * sizeof(unsigned)));
  CHECK(cudaMalloc(&device_histogram, bins * sizeof(unsigned)));
  CHECK(cudaMalloc(&device_largest, 2 * sizeof(unsigned)));
  CHECK(cudaMemcpy(device_values, values.data(), count * sizeof(unsigned), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(device_histogram, 0, bins * sizeof(unsigned)));
  CHECK(cudaMemset(device_largest, 0, 2 * sizeof(unsigned)));
  count_values<<<8, 128>>>(device_values, count, device_histogram);
  largest<<<(count + 127) / 128, 128>>>(device_values, count, device_largest, device_largest + 1);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(histogram.data(), device_histogram, bins * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(found, device_largest, sizeof(found), cudaMemcpyDeviceToHost));

  bool good = histogram == expected && found[0] == maximum && found[1] == maximum;
  std::printf("histogram_atomics: bins %s, largest %u and %u, expected %u\n",
              histogram == expected ? "equal" : "differ", found[0], found[1], maximum);
  CHECK(cudaFree(device_values));
  CHECK(cudaFree(device_histogram));
  CHECK(cudaFree(device_largest));
  return verdict(good);
}
