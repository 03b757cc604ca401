// SPDX-License-Identifier: Apache-2.0
// Sums an array: a tree in static shared memory for each block, then a second pass over the partial sums with shared
// memory whose size the launch gives.
#include <vector>

#include "check.hpp"

constexpr int threads = 256;

__global__ void partial_sums(const int* values, long long* sums, int count) {
  __shared__ long long part[threads];
  long long sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) sum += values[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

__global__ void total(const long long* sums, long long* result) {
  extern __shared__ long long dynamic_part[];
  dynamic_part[threadIdx.x] = sums[threadIdx.x];
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) dynamic_part[threadIdx.x] += dynamic_part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *result = dynamic_part[0];
}

int main() {
  const int count = 100'003, blocks = 32;
  std::vector<int> values(count);
  long long expected = 0;
  for (int i = 0; i < count; ++i) {
    values[i] = (i * 7919) % 1000 - 300;
    expected += values[i];
  }

  int* device_values;
  long long *device_sums, *device_total, sum = 0;
  CHECK(cudaMalloc(&device_values, count * sizeof(int)));
  CHECK(cudaMalloc(&device_sums, blocks * sizeof(long long)));
  CHECK(cudaMalloc(&device_total, sizeof(long long)));
  CHECK(cudaMemcpy(device_values, values.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  partial_sums<<<blocks, threads>>>(device_values, device_sums, count);
  total<<<1, blocks, blocks * sizeof(long long)>>>(device_sums, device_total);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&sum, device_total, sizeof(sum), cudaMemcpyDeviceToHost));

  std::printf("reduction: sum %lld, expected %lld\n", sum, expected);
  CHECK(cudaFree(device_values));
  CHECK(cudaFree(device_sums));
  CHECK(cudaFree(device_total));
  return verdict(sum == expected);
}
