// SPDX-License-Identifier: Apache-2.0
// One half of a program built with -rdc=true.
extern __device__ int twice(int value);
extern __device__ int shared_counter;

extern "C" __global__ void call_other(int* out, int value) {
  *out = twice(value);
  atomicAdd(&shared_counter, 1);
}
