// SPDX-License-Identifier: Apache-2.0
// The device half of vector_add_driver: compiled to a fatbin, which the host half carries as an array.
extern "C" __global__ void add(const float* a, const float* b, float* sum, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = a[i] + b[i];
}
