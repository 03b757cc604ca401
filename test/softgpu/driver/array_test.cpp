// SPDX-License-Identifier: Apache-2.0
// Arrays and mipmapped arrays, and the copies that have them at an end.
#include <numeric>

#include "driver.hpp"

namespace {

CUarray make_array(CUDA_ARRAY3D_DESCRIPTOR shape) {
  CUarray made = nullptr;
  REQUIRE_OK(driver(cuArray3DCreate_v2)(&made, &shape));
  return made;
}

std::vector<int> counting(int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

}  // namespace

TEST_CASE("arrays describe themselves as they were made") {
  test_context context;
  const CUDA_ARRAY_DESCRIPTOR flat{64, 32, CU_AD_FORMAT_FLOAT, 2};
  CUarray array = nullptr;
  REQUIRE_OK(driver(cuArrayCreate_v2)(&array, &flat));
  CUDA_ARRAY_DESCRIPTOR read{};
  REQUIRE_OK(driver(cuArrayGetDescriptor_v2)(&read, array));
  CHECK(read.Width == 64);
  CHECK(read.Height == 32);
  CHECK(read.Format == CU_AD_FORMAT_FLOAT);
  CHECK(read.NumChannels == 2);
  CUDA_ARRAY3D_DESCRIPTOR full{};
  REQUIRE_OK(driver(cuArray3DGetDescriptor_v2)(&full, array));
  CHECK(full.Depth == 0);
  CHECK(full.Flags == 0);
  REQUIRE_OK(driver(cuArrayDestroy)(array));
  CHECK_CODE(driver(cuArrayGetDescriptor_v2)(&read, array), CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("arrays that cannot be are refused") {
  test_context context;
  CUarray array = nullptr;
  const auto code = [&](CUDA_ARRAY3D_DESCRIPTOR shape) {
    return driver(cuArray3DCreate_v2)(&array, &shape);
  };
  CHECK_CODE(code({0, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0}), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(code({4, 4, 0, CU_AD_FORMAT_FLOAT, 3, 0}), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(code({4, 0, 4, CU_AD_FORMAT_FLOAT, 1, 0}), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(code({4, 4, 0, static_cast<CUarray_format>(0x77), 1, 0}), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(code({4, 8, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP}),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(code({200000, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0}), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuArray3DCreate_v2)(&array, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("one-dimensional arrays are copied by byte offsets") {
  test_context context;
  CUarray array = make_array({100, 0, 0, CU_AD_FORMAT_SIGNED_INT32, 1, 0});
  CUarray other = make_array({100, 0, 0, CU_AD_FORMAT_SIGNED_INT32, 1, 0});
  const auto values = counting(100);
  REQUIRE_OK(driver(cuMemcpyHtoA_v2)(array, 0, values.data(), 400));
  REQUIRE_OK(driver(cuMemcpyAtoA_v2)(other, 40, array, 80, 200));
  std::vector<int> back(50);
  REQUIRE_OK(driver(cuMemcpyAtoH_v2)(back.data(), other, 40, 200));
  CHECK(back == std::vector<int>(values.begin() + 20, values.begin() + 70));
  CUdeviceptr memory = device_array(std::vector<int>(10, 7));
  REQUIRE_OK(driver(cuMemcpyAtoD_v2)(memory, array, 40, 20));
  CHECK(host_copy<int>(memory, 6) == std::vector<int>{10, 11, 12, 13, 14, 7});
  REQUIRE_OK(driver(cuMemcpyDtoA_v2)(array, 0, memory, 40));
  CUstream stream = nullptr;
  REQUIRE_OK(driver(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE_OK(driver(cuMemcpyAtoHAsync_v2)(back.data(), array, 0, 28, stream));
  REQUIRE_OK(driver(cuStreamSynchronize)(stream));
  CHECK(std::vector<int>(back.begin(), back.begin() + 7) ==
        std::vector<int>{10, 11, 12, 13, 14, 7, 7});
  CHECK_CODE(driver(cuMemcpyHtoA_v2)(array, 4, values.data(), 400), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuArrayDestroy)(array));
  REQUIRE_OK(driver(cuArrayDestroy)(other));
}

TEST_CASE("boxes are copied between arrays and memory in two and three dimensions") {
  test_context context;
  CUarray flat = make_array({8, 6, 0, CU_AD_FORMAT_SIGNED_INT32, 1, 0});
  const auto values = counting(48);
  CUDA_MEMCPY2D plane{};
  plane.srcMemoryType = CU_MEMORYTYPE_HOST;
  plane.srcHost = values.data();
  plane.srcPitch = 32;
  plane.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  plane.dstArray = flat;
  plane.WidthInBytes = 32;
  plane.Height = 6;
  REQUIRE_OK(driver(cuMemcpy2D_v2)(&plane));

  CUarray solid = make_array({8, 6, 3, CU_AD_FORMAT_SIGNED_INT32, 1, 0});
  CUDA_MEMCPY3D fill{};
  fill.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  fill.srcArray = flat;
  fill.srcXInBytes = 4;
  fill.srcY = 1;
  fill.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  fill.dstArray = solid;
  fill.dstZ = 2;
  fill.WidthInBytes = 8;
  fill.Height = 2;
  fill.Depth = 1;
  REQUIRE_OK(driver(cuMemcpy3D_v2)(&fill));
  std::vector<int> back(4);
  CUDA_MEMCPY3D read{};
  read.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  read.srcArray = solid;
  read.srcZ = 2;
  read.dstMemoryType = CU_MEMORYTYPE_HOST;
  read.dstHost = back.data();
  read.dstPitch = 8;
  read.dstHeight = 2;
  read.WidthInBytes = 8;
  read.Height = 2;
  read.Depth = 1;
  REQUIRE_OK(driver(cuMemcpy3D_v2)(&read));
  CHECK(back == std::vector<int>{9, 10, 17, 18});
  read.srcZ = 3;
  CHECK_CODE(driver(cuMemcpy3D_v2)(&read), CUDA_ERROR_INVALID_VALUE);
  plane.dstXInBytes = 4;
  CHECK_CODE(driver(cuMemcpy2D_v2)(&plane), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuArrayDestroy)(flat));
  REQUIRE_OK(driver(cuArrayDestroy)(solid));
}

TEST_CASE("the levels of a mipmapped array halve") {
  test_context context;
  CUDA_ARRAY3D_DESCRIPTOR shape{20, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  CUmipmappedArray pyramid = nullptr;
  REQUIRE_OK(driver(cuMipmappedArrayCreate)(&pyramid, &shape, 3));
  CUarray level = nullptr;
  REQUIRE_OK(driver(cuMipmappedArrayGetLevel)(&level, pyramid, 2));
  CUDA_ARRAY3D_DESCRIPTOR read{};
  REQUIRE_OK(driver(cuArray3DGetDescriptor_v2)(&read, level));
  CHECK(read.Width == 5);
  CHECK(read.Height == 2);
  CHECK_CODE(driver(cuMipmappedArrayGetLevel)(&level, pyramid, 3), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuMipmappedArrayDestroy)(pyramid));
}

TEST_CASE("a batch copies everything or says which copy was wrong") {
  test_context context;
  CUstream stream = nullptr;
  REQUIRE_OK(driver(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr one = device_array(counting(100));
  const CUdeviceptr two = device_array(std::vector<int>(100, 0));
  CUdeviceptr to[] = {two, two + 200}, from[] = {one + 40, one};
  size_t sizes[] = {40, 8}, starts[] = {0};
  CUmemcpyAttributes how{};
  how.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  REQUIRE_OK(driver(cuMemcpyBatchAsync_v2)(to, from, sizes, 2, &how, starts, 1, stream));
  REQUIRE_OK(driver(cuStreamSynchronize)(stream));
  const auto now = host_copy<int>(two, 100);
  CHECK(now[0] == 10);
  CHECK(now[9] == 19);
  CHECK(now[51] == 1);
  CHECK_CODE(driver(cuMemcpyBatchAsync_v2)(to, from, sizes, 2, &how, starts, 1, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  how.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  CHECK_CODE(driver(cuMemcpyBatchAsync_v2)(to, from, sizes, 2, &how, starts, 1, stream),
             CUDA_ERROR_INVALID_VALUE);

  CUarray array = make_array({4, 4, 0, CU_AD_FORMAT_SIGNED_INT32, 1, 0});
  CUDA_MEMCPY3D_BATCH_OP steps[1]{};
  steps[0].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  steps[0].src.op.ptr.ptr = one;
  steps[0].src.op.ptr.rowLength = 10;
  steps[0].dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  steps[0].dst.op.array.array = array;
  steps[0].dst.op.array.offset = {1, 1, 0};
  steps[0].extent = {2, 2, 1};
  steps[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  REQUIRE_OK(driver(cuMemcpy3DBatchAsync_v2)(1, steps, 0, stream));
  REQUIRE_OK(driver(cuStreamSynchronize)(stream));
  std::vector<int> back(2);
  CUDA_MEMCPY2D row{};
  row.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  row.srcArray = array;
  row.srcXInBytes = 4;
  row.srcY = 2;
  row.dstMemoryType = CU_MEMORYTYPE_HOST;
  row.dstHost = back.data();
  row.WidthInBytes = 8;
  row.Height = 1;
  REQUIRE_OK(driver(cuMemcpy2D_v2)(&row));
  CHECK(back == std::vector<int>{10, 11});
  REQUIRE_OK(driver(cuArrayDestroy)(array));
}

TEST_CASE("memory of two devices is copied between their contexts") {
  int devices = 0;
  REQUIRE_OK(driver(cuInit)(0));
  REQUIRE_OK(driver(cuDeviceGetCount)(&devices));
  if (devices < 2) return;
  test_context first(0);
  const CUdeviceptr source = device_array(counting(64));
  test_context second(1);
  const CUdeviceptr target = device_array(std::vector<int>(64, 0));
  REQUIRE_OK(driver(cuMemcpyPeer)(target, second.handle, source, first.handle, 256));
  CHECK(host_copy<int>(target, 64) == counting(64));
  CUDA_MEMCPY3D_PEER part{};
  part.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  part.srcDevice = source;
  part.srcContext = first.handle;
  part.srcPitch = 32;
  part.srcHeight = 8;
  part.srcXInBytes = 8;
  part.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  part.dstDevice = target;
  part.dstContext = second.handle;
  part.dstPitch = 32;
  part.dstHeight = 8;
  part.WidthInBytes = 8;
  part.Height = 2;
  part.Depth = 1;
  REQUIRE_OK(driver(cuMemcpy3DPeer)(&part));
  REQUIRE_OK(driver(cuCtxSynchronize)());
  CHECK(host_copy<int>(target, 10) == std::vector<int>{2, 3, 2, 3, 4, 5, 6, 7, 10, 11});
}
