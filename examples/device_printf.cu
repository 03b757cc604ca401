// SPDX-License-Identifier: Apache-2.0
// Prints from the device. Its own check is a counter; what it printed is for the reader (one block, so the order is fixed).
#include "check.hpp"

__global__ void speak(int* said, double factor) {
  printf("thread %d of block %d: %s, %.3f, 0x%llx\n", threadIdx.x, blockIdx.x, "a line from the device",
         factor * threadIdx.x, 0xfeedULL + threadIdx.x);
  atomicAdd(said, 1);
}

int main() {
  int *device_said, said = 0;
  CHECK(cudaMalloc(&device_said, sizeof(int)));
  CHECK(cudaMemset(device_said, 0, sizeof(int)));
  speak<<<1, 4>>>(device_said, 1.25);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&said, device_said, sizeof(int), cudaMemcpyDeviceToHost));
  std::printf("device_printf: %d threads spoke\n", said);
  CHECK(cudaFree(device_said));
  return verdict(said == 4);
}
