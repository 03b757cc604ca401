// SPDX-License-Identifier: Apache-2.0
// Kernels of the driver tests, compiled by nvcc in every way it can embed them.
#include <cassert>
#include <cstdio>

__device__ int counter = 5;
__constant__ float factor = 2.0f;
__device__ int table[4] = {1, 2, 3, 4};
__device__ int* table_end = &table[3];

struct three_bytes {
  char value[3];
};
struct __align__(16) sixteen {
  float value[4];
};
struct large {
  int value[1000];
};

extern "C" {
__global__ void nothing() {}

__global__ void add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

__global__ void use_symbols(float* out) {
  out[0] = factor;
  out[1] = static_cast<float>(*table_end);
  atomicAdd(&counter, 3);
}

__global__ void mixed(char a, three_bytes b, sixteen c, double d, large e, float* out) {
  out[0] = a;
  out[1] = b.value[2];
  out[2] = c.value[3];
  out[3] = static_cast<float>(d);
  out[4] = static_cast<float>(e.value[999]);
}

#define FIVE(x) int x##0, int x##1, int x##2, int x##3, int x##4
#define SUM(x) (x##0 + x##1 + x##2 + x##3 + x##4)
__global__ void many(FIVE(a), FIVE(b), FIVE(c), FIVE(d), FIVE(e), FIVE(f), FIVE(g), FIVE(h), FIVE(i), FIVE(j),
                     FIVE(k), FIVE(l), FIVE(m), int* out) {
  *out = SUM(a) + SUM(b) + SUM(c) + SUM(d) + SUM(e) + SUM(f) + SUM(g) + SUM(h) + SUM(i) + SUM(j) + SUM(k) + SUM(l) +
         SUM(m) * 1000;
}

__global__ void sum_shared(const int* in, int* out) {
  extern __shared__ int part[];
  part[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (int step = blockDim.x / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = part[0];
}

__global__ void wait_for(int* flag, int* seen) {
  while (atomicAdd(flag, 0) == 0) {
  }
  *seen = 1;
}

__global__ void raise(int* flag) { atomicExch(flag, 1); }

// Every block waits for all others: needs all of them resident.
__global__ void meet(int* arrived, int* out) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < gridDim.x) {
    }
    out[blockIdx.x] = blockIdx.x + 1;
  }
}

__global__ void count_up(int* value, int times) {
  for (int i = 0; i < times; ++i) atomicAdd(value, 1);
}

__global__ void hello(int k) { printf("hello %d from %d\n", k, threadIdx.x); }

__global__ void write_at(unsigned long long address) { *reinterpret_cast<volatile int*>(address) = 1; }

__global__ void check(int value) { assert(value == 1); }

__global__ void stop_here() { asm volatile("trap;"); }

__global__ void write_constant(unsigned long long address) { *reinterpret_cast<volatile float*>(address) = 1; }

__global__ void use_heap(int* out) {
  int* memory = static_cast<int*>(malloc(64));
  memory[15] = 77;
  *out = memory[15];
  free(memory);
}

__global__ void __launch_bounds__(64) bounded() {}
}
