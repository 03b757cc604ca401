// SPDX-License-Identifier: Apache-2.0
// A part of the device's multiprocessors, a green context on it, work in the context's streams. Sizes differ between
// devices; what must hold between them is checked.
#include "test/loopback/programs/common.hpp"

static void refusals(CUdevice device) {
  CUdevResource resource{};
  unsigned groups = 1;
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetDevResource(device, nullptr, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_RESULT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetDevResource(12'345, &resource, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuDevSmResourceSplitByCount(nullptr, nullptr, &resource, nullptr, 0, 2));
  REQUIRE(cuDevSmResourceSplitByCount(nullptr, &groups, &resource, nullptr, 0, 2) != CUDA_SUCCESS);
}

int main() {
  gpu g;
  refusals(g.device);
  CUdevResource whole{};
  const CUresult first = cuDeviceGetDevResource(g.device, &whole, CU_DEV_RESOURCE_TYPE_SM);
  if (first == CUDA_ERROR_NOT_SUPPORTED) {
    std::printf("green contexts: not on this device\nPASSED\n");
    return 0;
  }
  CHECK(first);
  REQUIRE(whole.type == CU_DEV_RESOURCE_TYPE_SM && whole.sm.smCount > 0);
  CUdevResource part{}, rest{};
  unsigned groups = 1;
  CHECK(cuDevSmResourceSplitByCount(&part, &groups, &whole, &rest, 0, whole.sm.smCount / 2));
  REQUIRE(groups == 1 && part.sm.smCount >= whole.sm.smCount / 2 && part.sm.smCount <= whole.sm.smCount);
  unsigned possible = 0;
  CHECK(cuDevSmResourceSplitByCount(nullptr, &possible, &whole, nullptr, 0, part.sm.smCount));
  REQUIRE(possible >= 1);
  CUdevResourceDesc description;
  CHECK(cuDevResourceGenerateDesc(&description, &part, 1));
  CUgreenCtx green;
  CHECK(cuGreenCtxCreate(&green, description, g.device, CU_GREEN_CTX_DEFAULT_STREAM));
  CUdevResource own{};
  CHECK(cuGreenCtxGetDevResource(green, &own, CU_DEV_RESOURCE_TYPE_SM));
  REQUIRE(own.sm.smCount == part.sm.smCount);
  CUcontext context;
  CHECK(cuCtxFromGreenCtx(&context, green));
  REQUIRE(context != g.context);
  CHECK(cuCtxGetDevResource(context, &own, CU_DEV_RESOURCE_TYPE_SM));
  REQUIRE(own.sm.smCount == part.sm.smCount);

  CUstream stream;
  CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  CUgreenCtx of_stream = nullptr;
  CHECK(cuStreamGetGreenCtx(stream, &of_stream));
  REQUIRE(of_stream == green);
  CHECK(cuStreamGetGreenCtx(nullptr, &of_stream));
  REQUIRE(of_stream == nullptr);

  // Code of a library goes wherever its stream is.
  CUlibrary library;
  CUkernel kernel;
  CHECK(cuLibraryLoadData(&library, kernels_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cuLibraryGetKernel(&kernel, library, "store"));
  CHECK(cuCtxPushCurrent(context));
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, sizeof(int)));
  int value = 31, read = 0;
  void* parameters[] = {&place, &value};
  CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  CUevent event;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuGreenCtxRecordEvent(green, event));
  CHECK(cuGreenCtxWaitEvent(green, event));
  CHECK(cuEventSynchronize(event));
  CHECK(cuMemcpyDtoH(&read, place, sizeof read));
  REQUIRE(read == 31);
  CHECK(cuEventDestroy(event));
  CHECK(cuMemFree(place));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuCtxPopCurrent(nullptr));
  CHECK(cuGreenCtxDestroy(green));
  REQUIRE(cuGreenCtxDestroy(green) != CUDA_SUCCESS);
  CHECK(cuMemAlloc(&place, sizeof(int)));
  g.launch_store(place, 8);
  CHECK(cuMemcpyDtoH(&read, place, sizeof read));
  REQUIRE(read == 8);
  std::printf("green contexts: ran\nPASSED\n");
}
