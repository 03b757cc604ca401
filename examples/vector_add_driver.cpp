// SPDX-License-Identifier: Apache-2.0
// Adds two vectors through the driver API: what a runtime does, written out.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda.h>

#include "vector_add_kernel.fatbin.hpp"  // made by the build: alignas(8) const unsigned char vector_add_kernel_fatbin[]

static void check(CUresult result, const char* what, int line) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = "unknown error";
  std::printf("line %d: %s: %s\nFAILED\n", line, what, name);
  std::exit(1);
}
#define CHECK(call) check((call), #call, __LINE__)

int main() {
  const int count = 50'000;
  const size_t bytes = count * sizeof(float);
  std::vector<float> a(count), b(count), sum(count);
  for (int i = 0; i < count; ++i) {
    a[i] = 0.5f * i;
    b[i] = 2.0f * (count - i);
  }

  CHECK(cuInit(0));
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CUmodule module;
  CHECK(cuModuleLoadData(&module, vector_add_kernel_fatbin));
  CUfunction add;
  CHECK(cuModuleGetFunction(&add, module, "add"));

  CUdeviceptr device_a, device_b, device_sum;
  CHECK(cuMemAlloc(&device_a, bytes));
  CHECK(cuMemAlloc(&device_b, bytes));
  CHECK(cuMemAlloc(&device_sum, bytes));
  CHECK(cuMemcpyHtoD(device_a, a.data(), bytes));
  CHECK(cuMemcpyHtoD(device_b, b.data(), bytes));
  int element_count = count;
  void* parameters[] = {&device_a, &device_b, &device_sum, &element_count};
  CHECK(cuLaunchKernel(add, (count + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK(cuMemcpyDtoH(sum.data(), device_sum, bytes));

  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += sum[i] != a[i] + b[i];
  std::printf("vector_add_driver: %d elements, %d wrong\n", count, wrong);
  CHECK(cuMemFree(device_a));
  CHECK(cuMemFree(device_b));
  CHECK(cuMemFree(device_sum));
  CHECK(cuModuleUnload(module));
  CHECK(cuDevicePrimaryCtxRelease(device));
  std::printf(wrong == 0 ? "PASSED\n" : "FAILED\n");
  return wrong == 0 ? 0 : 1;
}
