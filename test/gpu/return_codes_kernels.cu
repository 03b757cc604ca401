// SPDX-License-Identifier: Apache-2.0
// Kernels of return_codes.cpp.

__device__ int table[100];

extern "C" __global__ void add_one(int* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1 + table[i % 100];
}

#define P(i) int a##i, int b##i, int c##i, int d##i
#define S(i) a##i + b##i + c##i + d##i
extern "C" __global__ void many_parameters(int* out, P(0), P(1), P(2), P(3), P(4), P(5), P(6), P(7), P(8), P(9), P(10),
                                           P(11), P(12), P(13), P(14), P(15)) {
  *out = S(0) + S(1) + S(2) + S(3) + S(4) + S(5) + S(6) + S(7) + S(8) + S(9) + S(10) + S(11) + S(12) + S(13) + S(14) + S(15);
}

extern "C" __global__ void write_wild() { *reinterpret_cast<int*>(8) = 1; }
