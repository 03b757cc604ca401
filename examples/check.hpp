// SPDX-License-Identifier: Apache-2.0
// How the examples treat errors: they say what failed and exit with 1. Nothing here or in the examples knows gpuwire.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

inline void check_runtime(cudaError_t error, const char* what, int line) {
  if (error == cudaSuccess) return;
  std::printf("line %d: %s: %s\nFAILED\n", line, what, cudaGetErrorString(error));
  std::exit(1);
}

#define CHECK(call) check_runtime((call), #call, __LINE__)

// The last line of every example, and its exit status.
inline int verdict(bool good) {
  std::printf(good ? "PASSED\n" : "FAILED\n");
  return good ? 0 : 1;
}
