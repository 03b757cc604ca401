// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "driver.hpp"

namespace {

std::vector<int> counting(int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

}  // namespace

TEST_CASE("linear copies move bytes between all kinds of memory") {
  test_context context;
  const auto values = counting(1000);
  const CUdeviceptr one = device_array(values);
  CUdeviceptr two = 0;
  REQUIRE_OK(driver(cuMemAlloc_v2)(&two, 4000));
  REQUIRE_OK(driver(cuMemcpyDtoD_v2)(two, one, 4000));
  CHECK(host_copy<int>(two, 1000) == values);
  std::vector<int> back(1000);
  REQUIRE_OK(driver(cuMemcpy)(reinterpret_cast<CUdeviceptr>(back.data()), two, 4000));
  CHECK(back == values);
  int* pinned = nullptr;
  REQUIRE_OK(driver(cuMemAllocHost_v2)(reinterpret_cast<void**>(&pinned), 4000));
  CUstream stream = nullptr;
  REQUIRE_OK(driver(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE_OK(driver(cuMemcpyDtoHAsync_v2)(pinned, one, 4000, stream));
  REQUIRE_OK(driver(cuStreamSynchronize)(stream));
  CHECK(std::equal(values.begin(), values.end(), pinned));
  REQUIRE_OK(driver(cuMemcpyAsync)(two + 4, reinterpret_cast<CUdeviceptr>(pinned), 40, stream));
  REQUIRE_OK(driver(cuStreamSynchronize)(stream));
  CHECK(host_copy<int>(two, 3) == std::vector<int>{0, 0, 1});
}

TEST_CASE("copies of bad ranges give 1 and change nothing") {
  test_context context;
  const CUdeviceptr memory = device_array(counting(256));
  char host[2048] = {};
  CHECK_CODE(driver(cuMemcpyHtoD_v2)(memory, host, 1025), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemcpyHtoD_v2)(memory + 1020, host, 5), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemcpyHtoD_v2)(memory, host, ~size_t{0}), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemcpyHtoD_v2)(8, host, 4), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemcpyHtoD_v2)(reinterpret_cast<CUdeviceptr>(host), host, 4),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemcpyHtoD_v2)(memory, nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemcpyDtoH_v2)(host, memory + 1024, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemcpy)(memory, 8, 4), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemcpy)(8, memory, 4), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemcpyDtoD_v2)(memory, memory + (64 << 20), 4), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemcpyHtoD_v2)(memory, host, 0), CUDA_SUCCESS);
  CHECK(host_copy<int>(memory, 256) == counting(256));
  REQUIRE_OK(driver(cuMemFree_v2)(memory));
  CHECK_CODE(driver(cuMemcpyHtoD_v2)(memory, host, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("two-dimensional copies honour offsets and pitches") {
  test_context context;
  const auto values = counting(64);  // 8 x 8
  const CUdeviceptr memory = device_array(values);
  std::vector<int> out(12, -1);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory;
  copy.srcPitch = 32;
  copy.srcXInBytes = 8;
  copy.srcY = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = out.data();
  copy.dstPitch = 16;
  copy.WidthInBytes = 12;
  copy.Height = 3;
  REQUIRE_OK(driver(cuMemcpy2D_v2)(&copy));
  CHECK(out == std::vector<int>{26, 27, 28, -1, 34, 35, 36, -1, 42, 43, 44, -1});
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(out.data());
  copy.srcY = 0;
  REQUIRE_OK(driver(cuMemcpy2DAsync_v2)(&copy, nullptr));
  CHECK(out[0] == 2);

  copy.srcY = 6;
  CHECK_CODE(driver(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.srcY = 0;
  copy.srcPitch = 16;
  CHECK_CODE(driver(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.srcPitch = 32;
  copy.Height = ~size_t{0};
  CHECK_CODE(driver(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.Height = 1;
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  CHECK_CODE(driver(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(driver(cuMemcpy2D_v2)(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("three-dimensional copies honour planes") {
  test_context context;
  const CUdeviceptr memory = device_array(counting(4 * 4 * 4));
  std::vector<int> out(8, -1);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory;
  copy.srcPitch = 16;
  copy.srcHeight = 4;
  copy.srcXInBytes = 4;
  copy.srcY = 2;
  copy.srcZ = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = out.data();
  copy.dstPitch = 8;
  copy.dstHeight = 2;
  copy.WidthInBytes = 8;
  copy.Height = 2;
  copy.Depth = 2;
  REQUIRE_OK(driver(cuMemcpy3D_v2)(&copy));
  CHECK(out == std::vector<int>{25, 26, 29, 30, 41, 42, 45, 46});
  copy.srcZ = 3;
  CHECK_CODE(driver(cuMemcpy3D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("fills write every width and refuse unaligned addresses") {
  test_context context;
  const CUdeviceptr memory = device_array(counting(64));
  REQUIRE_OK(driver(cuMemsetD32_v2)(memory, 7, 4));
  REQUIRE_OK(driver(cuMemsetD16_v2)(memory + 16, 0x0102, 2));
  REQUIRE_OK(driver(cuMemsetD8_v2)(memory + 20, 0xff, 4));
  REQUIRE_OK(driver(cuMemsetD2D32_v2)(memory + 32, 32, 9, 2, 2));
  const auto values = host_copy<int>(memory, 20);
  CHECK(values == std::vector<int>{7,  7,  7,  7,  0x01020102, -1, 6, 7, 9,  9,
                                   10, 11, 12, 13, 14,         15, 9, 9, 18, 19});
  CHECK_CODE(driver(cuMemsetD32_v2)(memory + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemsetD16_v2)(memory + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemsetD32_v2)(memory, 0, 65), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemsetD32_v2)(memory, 0, (~size_t{0}) / 2), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemsetD2D8_v2)(memory, 4, 0, 8, 2), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemsetD8_v2)(8, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("copies between the two devices arrive") {
  test_context first(0);
  const CUdeviceptr from = device_array(counting(100));
  test_context second(1);
  CUdeviceptr to = 0;
  REQUIRE_OK(driver(cuMemAlloc_v2)(&to, 400));
  REQUIRE_OK(driver(cuMemcpyPeer)(to, second.handle, from, first.handle, 400));
  CHECK(host_copy<int>(to, 100) == counting(100));
  int can = 0;
  REQUIRE_OK(driver(cuDeviceCanAccessPeer)(&can, 1, 0));
  CHECK(can == 1);
  REQUIRE_OK(driver(cuCtxEnablePeerAccess)(first.handle, 0));
  CHECK_CODE(driver(cuCtxEnablePeerAccess)(first.handle, 0),
             CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  REQUIRE_OK(driver(cuCtxDisablePeerAccess)(first.handle));
  CHECK_CODE(driver(cuCtxDisablePeerAccess)(first.handle), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}
