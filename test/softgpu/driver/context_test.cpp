// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "driver.hpp"

namespace {

CUcontext current() {
  CUcontext context = nullptr;
  REQUIRE_OK(driver(cuCtxGetCurrent)(&context));
  return context;
}

CUcontext handle_of(std::uintptr_t number) {
  return reinterpret_cast<CUcontext>(number);
}

}  // namespace

TEST_CASE("without a current context calls give 201") {
  REQUIRE_OK(driver(cuInit)(0));
  std::thread([] {
    CUdeviceptr memory = 0;
    CUdevice device = 0;
    CHECK(current() == nullptr);
    CHECK_CODE(driver(cuMemAlloc_v2)(&memory, 16), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(driver(cuCtxSynchronize)(), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(driver(cuCtxGetDevice)(&device), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(driver(cuStreamSynchronize)(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(driver(cuCtxPopCurrent_v2)(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

TEST_CASE("each thread has its own stack of contexts") {
  test_context one, two;
  CHECK(current() == two.handle);
  std::thread([&] {
    CHECK(current() == nullptr);
    CHECK_CODE(driver(cuCtxPushCurrent_v2)(one.handle), CUDA_SUCCESS);
    CHECK(current() == one.handle);
  }).join();
  CUcontext popped = nullptr;
  REQUIRE_OK(driver(cuCtxPopCurrent_v2)(&popped));
  CHECK(popped == two.handle);
  CHECK(current() == one.handle);
  REQUIRE_OK(driver(cuCtxSetCurrent)(two.handle));
  CHECK(current() == two.handle);
  REQUIRE_OK(driver(cuCtxSetCurrent)(nullptr));
  CHECK(current() == nullptr);
  REQUIRE_OK(driver(cuCtxSetCurrent)(one.handle));
}

TEST_CASE("wrong and stale context handles give codes and never a crash") {
  REQUIRE_OK(driver(cuInit)(0));
  CUcontext gone = nullptr;
  {
    test_context context;
    gone = context.handle;
  }
  CUstream stream = nullptr;
  test_context alive;
  REQUIRE_OK(driver(cuStreamCreate)(&stream, 0));
  for (CUcontext bad : {handle_of(1), handle_of(2), handle_of(~0ull), handle_of(0x12345678), gone,
                        reinterpret_cast<CUcontext>(stream)}) {
    INFO(bad);
    unsigned long long id = 0;
    CHECK_CODE(driver(cuCtxSetCurrent)(bad), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(driver(cuCtxPushCurrent_v2)(bad), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(driver(cuCtxDestroy_v2)(bad), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_CODE(driver(cuCtxGetId)(bad, &id), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_CODE(driver(cuCtxSynchronize_v2)(bad), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }
}

TEST_CASE("a destroyed context that is still current elsewhere gives 709") {
  REQUIRE_OK(driver(cuInit)(0));
  CUcontext context = nullptr;
  REQUIRE_OK(driver(cuCtxCreate_v2)(&context, 0, 0));
  std::thread([&] { REQUIRE_OK(driver(cuCtxDestroy_v2)(context)); }).join();
  CUdeviceptr memory = 0;
  CHECK_CODE(driver(cuMemAlloc_v2)(&memory, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_CODE(driver(cuCtxSynchronize)(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  REQUIRE_OK(driver(cuCtxPopCurrent_v2)(nullptr));
}

TEST_CASE(
    "the primary context has one handle, is counted, and may be made current before it is active") {
  REQUIRE_OK(driver(cuInit)(0));
  CUcontext first = nullptr, second = nullptr;
  unsigned flags = 0;
  int active = 1;
  REQUIRE_OK(driver(cuDevicePrimaryCtxGetState)(1, &flags, &active));
  CHECK(active == 0);
  CHECK_CODE(driver(cuDevicePrimaryCtxRelease_v2)(1), CUDA_ERROR_INVALID_CONTEXT);
  REQUIRE_OK(driver(cuDevicePrimaryCtxRetain)(&first, 1));
  REQUIRE_OK(driver(cuDevicePrimaryCtxRetain)(&second, 1));
  CHECK(first == second);
  REQUIRE_OK(driver(cuDevicePrimaryCtxRelease_v2)(1));
  REQUIRE_OK(driver(cuDevicePrimaryCtxGetState)(1, &flags, &active));
  CHECK(active == 1);
  REQUIRE_OK(driver(cuDevicePrimaryCtxRelease)(1));
  REQUIRE_OK(driver(cuDevicePrimaryCtxGetState)(1, &flags, &active));
  CHECK(active == 0);

  REQUIRE_OK(driver(cuCtxPushCurrent_v2)(first));
  CUdeviceptr memory = 0;
  CHECK_CODE(driver(cuMemAlloc_v2)(&memory, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  REQUIRE_OK(driver(cuDevicePrimaryCtxRetain)(&second, 1));
  CHECK(second == first);
  REQUIRE_OK(driver(cuMemAlloc_v2)(&memory, 16));
  CUstream stream = nullptr;
  REQUIRE_OK(driver(cuStreamCreate)(&stream, 0));
  REQUIRE_OK(driver(cuDevicePrimaryCtxReset_v2)(1));
  CHECK_CODE(driver(cuStreamSynchronize)(stream), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(driver(cuDevicePrimaryCtxRetain)(&second, 1));
  CHECK_CODE(driver(cuMemFree_v2)(memory), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuCtxPopCurrent_v2)(nullptr));
  REQUIRE_OK(driver(cuDevicePrimaryCtxRelease_v2)(1));
}

TEST_CASE("limits, flags, versions and priorities of a context are kept") {
  test_context context;
  size_t value = 0;
  REQUIRE_OK(driver(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 4096));
  REQUIRE_OK(driver(cuCtxGetLimit)(&value, CU_LIMIT_STACK_SIZE));
  CHECK(value == 4096);
  CHECK_CODE(driver(cuCtxGetLimit)(&value, CU_LIMIT_MAX), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuCtxGetLimit)(&value, CU_LIMIT_CIG_ENABLED), CUDA_ERROR_UNSUPPORTED_LIMIT);
  unsigned version = 0;
  REQUIRE_OK(driver(cuCtxGetApiVersion)(context.handle, &version));
  CHECK(version == 3020);
  int least = 1, greatest = 1;
  REQUIRE_OK(driver(cuCtxGetStreamPriorityRange)(&least, &greatest));
  CHECK(greatest < least);
  unsigned long long one = 0, other = 0;
  REQUIRE_OK(driver(cuCtxGetId)(nullptr, &one));
  {
    test_context second;
    REQUIRE_OK(driver(cuCtxGetId)(nullptr, &other));
  }
  CHECK(one != other);
  CUdevice device = -1;
  REQUIRE_OK(driver(cuCtxGetDevice_v2)(&device, context.handle));
  CHECK(device == 0);
  CUcontext refused = nullptr;
  CHECK_CODE(driver(cuCtxCreate_v2)(&refused, 0x1000, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuCtxCreate_v2)(nullptr, 0, 0), CUDA_ERROR_INVALID_VALUE);
  CUexecAffinityParam affinity{};
  CHECK_CODE(driver(cuCtxCreate_v3)(&refused, &affinity, 1, 0, 0),
             CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
}
