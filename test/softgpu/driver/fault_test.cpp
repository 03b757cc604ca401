// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"

namespace {

struct broken_case {
  const char* kernel;
  unsigned long long argument;
  CUresult code;
};

}  // namespace

TEST_CASE("a kernel's fault is reported by the next synchronise and sticks to its context only") {
  const auto which = GENERATE(broken_case{"write_at", 8, CUDA_ERROR_ILLEGAL_ADDRESS},
                              broken_case{"check", 2, CUDA_ERROR_ASSERT},
                              broken_case{"stop_here", 0, CUDA_ERROR_LAUNCH_FAILED});
  INFO(which.kernel);
  test_context healthy;
  const CUdeviceptr kept = device_array<int>({42});
  {
    test_context broken;
    test_module module;
    const CUfunction function = module.function(which.kernel);
    CUstream stream = nullptr;
    REQUIRE_OK(driver(cuStreamCreate)(&stream, 0));
    CUdeviceptr memory = 0;
    REQUIRE_OK(driver(cuMemAlloc_v2)(&memory, 64));
    REQUIRE_OK(launch(function, 1, 1, stream, which.argument));
    CHECK_CODE(driver(cuStreamSynchronize)(stream), which.code);
    CHECK_CODE(driver(cuCtxSynchronize)(), which.code);
    CHECK_CODE(driver(cuMemAlloc_v2)(&memory, 64), which.code);
    CHECK_CODE(driver(cuMemFree_v2)(memory), which.code);
    CHECK_CODE(launch(function, 1, 1, stream, which.argument), which.code);
    CHECK_CODE(driver(cuStreamQuery)(stream), which.code);
    CUcontext current = nullptr;
    CHECK_CODE(driver(cuCtxGetCurrent)(&current), CUDA_SUCCESS);
    REQUIRE_OK(driver(cuCtxPushCurrent_v2)(healthy.handle));
    CHECK(host_copy<int>(kept, 1)[0] == 42);
    REQUIRE_OK(driver(cuCtxPopCurrent_v2)(nullptr));
  }
  CHECK(host_copy<int>(kept, 1)[0] == 42);
  REQUIRE_OK(driver(cuCtxSynchronize)());
}

TEST_CASE("kernels may not touch freed memory, constants or another context's memory") {
  CUdeviceptr foreign = 0;
  test_context owner;
  REQUIRE_OK(driver(cuMemAlloc_v2)(&foreign, 4096));
  SECTION("freed") {
    test_context context;
    test_module module;
    CUdeviceptr memory = 0;
    REQUIRE_OK(driver(cuMemAlloc_v2)(&memory, 4096));
    REQUIRE_OK(launch(module.function("write_at"), 1, 1, nullptr, memory));
    REQUIRE_OK(driver(cuCtxSynchronize)());
    REQUIRE_OK(driver(cuMemFree_v2)(memory));
    REQUIRE_OK(launch(module.function("write_at"), 1, 1, nullptr, memory));
    CHECK_CODE(driver(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  SECTION("beyond the end") {
    test_context context;
    test_module module;
    CUdeviceptr memory = 0;
    REQUIRE_OK(driver(cuMemAlloc_v2)(&memory, 4096));
    REQUIRE_OK(launch(module.function("write_at"), 1, 1, nullptr, memory + 4096));
    CHECK_CODE(driver(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  SECTION("misaligned") {
    test_context context;
    test_module module;
    CUdeviceptr memory = 0;
    REQUIRE_OK(driver(cuMemAlloc_v2)(&memory, 4096));
    REQUIRE_OK(launch(module.function("write_at"), 1, 1, nullptr, memory + 2));
    CHECK_CODE(driver(cuCtxSynchronize)(), CUDA_ERROR_MISALIGNED_ADDRESS);
  }
  SECTION("constant") {
    test_context context;
    test_module module;
    CUdeviceptr factor = 0;
    REQUIRE_OK(driver(cuModuleGetGlobal_v2)(&factor, nullptr, module.handle, "factor"));
    REQUIRE_OK(launch(module.function("write_constant"), 1, 1, nullptr, factor));
    CHECK_CODE(driver(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  SECTION("another context's, until peer access is enabled") {
    {
      test_context context(1);
      test_module module;
      REQUIRE_OK(driver(cuCtxEnablePeerAccess)(owner.handle, 0));
      REQUIRE_OK(launch(module.function("write_at"), 1, 1, nullptr, foreign));
      REQUIRE_OK(driver(cuCtxSynchronize)());
    }
    test_context context(1);
    test_module module;
    REQUIRE_OK(launch(module.function("write_at"), 1, 1, nullptr, foreign));
    CHECK_CODE(driver(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
}

TEST_CASE("a fault ends the other kernels of the context and drops what is queued") {
  test_context context;
  test_module module;
  CUstream one = nullptr, two = nullptr;
  REQUIRE_OK(driver(cuStreamCreate)(&one, CU_STREAM_NON_BLOCKING));
  REQUIRE_OK(driver(cuStreamCreate)(&two, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr words = device_array<int>({0, 0});
  REQUIRE_OK(launch(module.function("wait_for"), 4, 1, one, words, words + 4));
  REQUIRE_OK(driver(cuMemsetD32Async)(words + 4, 5, 1, one));
  REQUIRE_OK(launch(module.function("write_at"), 1, 1, two, CUdeviceptr{8}));
  CHECK_CODE(driver(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("resetting the primary context clears its error") {
  REQUIRE_OK(driver(cuInit)(0));
  CUcontext primary = nullptr;
  REQUIRE_OK(driver(cuDevicePrimaryCtxRetain)(&primary, 1));
  REQUIRE_OK(driver(cuCtxPushCurrent_v2)(primary));
  {
    test_module module;
    REQUIRE_OK(launch(module.function("write_at"), 1, 1, nullptr, CUdeviceptr{8}));
    CHECK_CODE(driver(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  REQUIRE_OK(driver(cuDevicePrimaryCtxReset_v2)(1));
  REQUIRE_OK(driver(cuDevicePrimaryCtxRetain)(&primary, 1));
  CUdeviceptr memory = 0;
  CHECK_CODE(driver(cuMemAlloc_v2)(&memory, 64), CUDA_SUCCESS);
  REQUIRE_OK(driver(cuCtxPopCurrent_v2)(nullptr));
  REQUIRE_OK(driver(cuDevicePrimaryCtxRelease_v2)(1));
}
