// SPDX-License-Identifier: Apache-2.0
// Inclusive prefix sums with warp shuffles, a vote and a ballot.
#include <vector>

#include "check.hpp"

constexpr int threads = 256;

__device__ int warp_inclusive(int value) {
  int lane = threadIdx.x & 31;
  for (int distance = 1; distance < 32; distance *= 2) {
    int other = __shfl_up_sync(0xffffffffu, value, distance);
    if (lane >= distance) value += other;
  }
  return value;
}

__global__ void scan(const int* values, int* sums, unsigned* odd_count, int* all_positive) {
  __shared__ int warp_total[threads / 32];
  int i = blockIdx.x * threads + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  int sum = warp_inclusive(values[i]);
  if (lane == 31) warp_total[warp] = sum;
  unsigned odd = __ballot_sync(0xffffffffu, values[i] & 1);
  if (lane == 0) atomicAdd(odd_count, __popc(odd));
  if (!__all_sync(0xffffffffu, values[i] > 0)) *all_positive = 0;
  __syncthreads();
  for (int before = 0; before < warp; ++before) sum += warp_total[before];
  sums[i] = sum;
}

int main() {
  const int blocks = 4, count = blocks * threads;
  std::vector<int> values(count), sums(count);
  unsigned expected_odd = 0;
  for (int i = 0; i < count; ++i) {
    values[i] = 1 + (i * 37) % 11;
    expected_odd += values[i] & 1;
  }

  int *device_values, *device_sums, *device_positive, positive = 1;
  unsigned *device_odd, odd = 0;
  CHECK(cudaMalloc(&device_values, count * sizeof(int)));
  CHECK(cudaMalloc(&device_sums, count * sizeof(int)));
  CHECK(cudaMalloc(&device_odd, sizeof(unsigned)));
  CHECK(cudaMalloc(&device_positive, sizeof(int)));
  CHECK(cudaMemcpy(device_values, values.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_odd, &odd, sizeof(odd), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_positive, &positive, sizeof(positive), cudaMemcpyHostToDevice));
  scan<<<blocks, threads>>>(device_values, device_sums, device_odd, device_positive);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(sums.data(), device_sums, count * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&odd, device_odd, sizeof(odd), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&positive, device_positive, sizeof(positive), cudaMemcpyDeviceToHost));

  int wrong = 0;
  for (int block = 0; block < blocks; ++block) {
    int expected = 0;
    for (int i = block * threads; i < (block + 1) * threads; ++i) {
      expected += values[i];
      wrong += sums[i] != expected;
    }
  }
  std::printf("warp_scan: %d elements, %d wrong, %u odd, expected %u, all positive: %s\n", count, wrong, odd, expected_odd,
              positive ? "yes" : "no");
  CHECK(cudaFree(device_values));
  CHECK(cudaFree(device_sums));
  CHECK(cudaFree(device_odd));
  CHECK(cudaFree(device_positive));
  return verdict(wrong == 0 && odd == expected_odd && positive == 1);
}
