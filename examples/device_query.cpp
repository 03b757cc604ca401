// SPDX-License-Identifier: Apache-2.0
// Lists the devices that the driver API shows.
#include <cstdio>

#include <cuda.h>

static int fail(const char* what, CUresult result) {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = "unknown error";
  std::printf("device_query: %s: %s (%d)\nFAILED\n", what, name, static_cast<int>(result));
  return 1;
}

int main() {
  if (CUresult result = cuInit(0)) return fail("cuInit", result);
  int count = 0, version = 0;
  if (CUresult result = cuDriverGetVersion(&version)) return fail("cuDriverGetVersion", result);
  if (CUresult result = cuDeviceGetCount(&count)) return fail("cuDeviceGetCount", result);
  std::printf("driver %d.%d, %d device(s)\n", version / 1000, version % 1000 / 10, count);
  for (int i = 0; i < count; ++i) {
    CUdevice device;
    char name[256];
    size_t bytes = 0;
    int major = 0, minor = 0, processors = 0;
    if (CUresult result = cuDeviceGet(&device, i)) return fail("cuDeviceGet", result);
    if (CUresult result = cuDeviceGetName(name, sizeof(name), device)) return fail("cuDeviceGetName", result);
    if (CUresult result = cuDeviceTotalMem(&bytes, device)) return fail("cuDeviceTotalMem", result);
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    std::printf("  %d: %s, compute capability %d.%d, %d multiprocessors, %zu MiB\n", i, name, major, minor, processors,
                bytes >> 20);
  }
  std::printf("PASSED\n");
  return 0;
}
