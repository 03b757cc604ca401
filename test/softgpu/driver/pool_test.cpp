// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation and memory pools.
#include <cstdint>

#include "driver.hpp"

namespace {

CUstream make_stream() {
  CUstream made = nullptr;
  REQUIRE_OK(driver(cuStreamCreate)(&made, CU_STREAM_NON_BLOCKING));
  return made;
}

CUmemPoolProps device_properties(int device = 0) {
  CUmemPoolProps wanted{};
  wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return wanted;
}

class test_pool {
 public:
  explicit test_pool(const CUmemPoolProps& wanted = device_properties()) {
    REQUIRE_OK(driver(cuMemPoolCreate)(&handle, &wanted));
  }
  ~test_pool() { driver(cuMemPoolDestroy)(handle); }
  std::uint64_t value(CUmemPool_attribute which) const {
    std::uint64_t now = 77;
    REQUIRE_OK(driver(cuMemPoolGetAttribute)(handle, which, &now));
    return now;
  }
  CUmemoryPool handle = nullptr;
};

constexpr std::uint64_t megabyte = 1u << 20;

}  // namespace

TEST_CASE("memory of a pool is used like other device memory") {
  test_context context;
  test_module module;
  CUstream stream = make_stream();
  const int count = 1000;
  CUdeviceptr a = 0, b = 0, c = 0;
  REQUIRE_OK(driver(cuMemAllocAsync)(&a, count * sizeof(float), stream));
  REQUIRE_OK(driver(cuMemAllocAsync)(&b, count * sizeof(float), stream));
  REQUIRE_OK(driver(cuMemAllocAsync)(&c, count * sizeof(float), stream));
  CHECK(a % 512 == 0);
  const std::vector<float> ones(count, 1.0f), twos(count, 2.0f);
  REQUIRE_OK(driver(cuMemcpyHtoDAsync_v2)(a, ones.data(), count * sizeof(float), stream));
  REQUIRE_OK(driver(cuMemcpyHtoDAsync_v2)(b, twos.data(), count * sizeof(float), stream));
  REQUIRE_OK(launch(module.function("add"), 8, 128, stream, a, b, c, count));
  std::vector<float> sum(count);
  REQUIRE_OK(driver(cuMemcpyDtoHAsync_v2)(sum.data(), c, count * sizeof(float), stream));
  REQUIRE_OK(driver(cuMemFreeAsync)(a, stream));
  REQUIRE_OK(driver(cuMemFreeAsync)(b, stream));
  REQUIRE_OK(driver(cuStreamSynchronize)(stream));
  CHECK(sum == std::vector<float>(count, 3.0f));

  unsigned type = 0;
  CUmemoryPool owner = nullptr, expected = nullptr;
  REQUIRE_OK(driver(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, c + 4));
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  REQUIRE_OK(driver(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, c));
  REQUIRE_OK(driver(cuDeviceGetDefaultMemPool)(&expected, 0));
  CHECK(owner == expected);
  REQUIRE_OK(driver(cuMemFree_v2)(c));
  CHECK_CODE(driver(cuMemFree_v2)(c), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuStreamDestroy_v2)(stream));
}

TEST_CASE(
    "a freed block is given to the same stream at once and to others when the free happened") {
  test_context context;
  test_module module;
  test_pool pool;
  CUstream one = make_stream(), other = make_stream();
  CUdeviceptr flag = device_array<int>({0, 0});
  REQUIRE_OK(launch(module.function("wait_for"), 1, 1, one, flag, flag + 4));
  CUdeviceptr first = 0, again = 0, elsewhere = 0;
  REQUIRE_OK(driver(cuMemAllocFromPoolAsync)(&first, 5000, pool.handle, one));
  REQUIRE_OK(driver(cuMemFreeAsync)(first, one));
  REQUIRE_OK(driver(cuMemAllocFromPoolAsync)(&again, 4800, pool.handle, one));
  CHECK(again == first);
  REQUIRE_OK(driver(cuMemFreeAsync)(again, one));
  REQUIRE_OK(driver(cuMemAllocFromPoolAsync)(&elsewhere, 5000, pool.handle, other));
  CHECK(elsewhere != first);

  REQUIRE_OK(launch(module.function("raise"), 1, 1, other, flag));
  REQUIRE_OK(driver(cuStreamSynchronize)(one));
  CUdeviceptr late = 0;
  REQUIRE_OK(driver(cuMemAllocFromPoolAsync)(&late, 5000, pool.handle, other));
  CHECK(late == first);
  size_t bytes = 0;
  REQUIRE_OK(driver(cuMemGetAddressRange_v2)(nullptr, &bytes, late));
  CHECK(bytes == 5000);
  REQUIRE_OK(driver(cuMemFreeAsync)(late, other));
  REQUIRE_OK(driver(cuMemFreeAsync)(elsewhere, other));
  REQUIRE_OK(driver(cuStreamSynchronize)(other));
}

TEST_CASE("a pool counts what is used and gives back what exceeds the threshold") {
  test_context context;
  test_pool pool;
  CUstream stream = make_stream();
  CHECK(pool.value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
  CHECK(pool.value(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 0);
  CUdeviceptr small = 0, large = 0;
  REQUIRE_OK(driver(cuMemAllocFromPoolAsync)(&small, 1000, pool.handle, stream));
  REQUIRE_OK(driver(cuMemAllocFromPoolAsync)(&large, 40 * megabyte, pool.handle, stream));
  CHECK(pool.value(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 40 * megabyte + 1000);
  CHECK(pool.value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 40 * megabyte + 1024);
  const auto reserved = pool.value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);

  REQUIRE_OK(driver(cuMemFreeAsync)(large, stream));
  REQUIRE_OK(driver(cuStreamSynchronize)(stream));
  CHECK(pool.value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) < 40 * megabyte);
  CHECK(pool.value(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == reserved);
  CHECK(pool.value(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 40 * megabyte + 1000);
  std::uint64_t zero = 0, one = 1, threshold = 64 * megabyte;
  REQUIRE_OK(driver(cuMemPoolSetAttribute)(pool.handle, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
  CHECK(pool.value(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 1000);
  CHECK_CODE(driver(cuMemPoolSetAttribute)(pool.handle, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &one),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemPoolSetAttribute)(pool.handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero),
             CUDA_ERROR_INVALID_VALUE);

  REQUIRE_OK(
      driver(cuMemPoolSetAttribute)(pool.handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  REQUIRE_OK(driver(cuMemFreeAsync)(small, stream));
  REQUIRE_OK(driver(cuStreamSynchronize)(stream));
  CHECK(pool.value(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
  CHECK(pool.value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) > 0);
  REQUIRE_OK(driver(cuMemPoolTrimTo)(pool.handle, 0));
  CHECK(pool.value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
  int enabled = 77;
  REQUIRE_OK(driver(cuMemPoolGetAttribute)(pool.handle, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                                           &enabled));
  CHECK(enabled == 1);
  REQUIRE_OK(driver(cuStreamDestroy_v2)(stream));
}

TEST_CASE("pool calls refuse what is wrong") {
  test_context context;
  test_pool pool;
  CUstream stream = make_stream();
  CUdeviceptr memory = 0;
  CHECK_CODE(driver(cuMemAllocFromPoolAsync)(nullptr, 16, pool.handle, stream),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuMemAllocFromPoolAsync)(&memory, 0, pool.handle, stream));
  CHECK(memory == 0);
  CHECK_CODE(driver(cuMemAllocFromPoolAsync)(&memory, ~size_t{0} / 2, pool.handle, stream),
             CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE_OK(driver(cuMemAllocFromPoolAsync)(&memory, 16, pool.handle, stream));
  CHECK_CODE(driver(cuMemFreeAsync)(memory + 4, stream), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuMemFreeAsync)(memory, stream));
  CHECK_CODE(driver(cuMemFreeAsync)(memory, stream), CUDA_ERROR_INVALID_VALUE);

  CUmemPoolProps wanted = device_properties();
  CUmemoryPool made = nullptr;
  CHECK_CODE(driver(cuMemPoolCreate)(nullptr, &wanted), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemPoolCreate)(&made, nullptr), CUDA_ERROR_INVALID_VALUE);
  wanted.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
  CHECK_CODE(driver(cuMemPoolCreate)(&made, &wanted), CUDA_ERROR_INVALID_VALUE);
  CUmemoryPool standard = nullptr;
  REQUIRE_OK(driver(cuDeviceGetDefaultMemPool)(&standard, 0));
  CHECK_CODE(driver(cuMemPoolDestroy)(standard), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemPoolDestroy)(nullptr), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuStreamDestroy_v2)(stream));
}

TEST_CASE("a limited pool ends at its limit, rounded up to what it grows by") {
  test_context context;
  CUmemPoolProps wanted = device_properties();
  wanted.maxSize = 48 * megabyte;
  test_pool pool(wanted);
  CUdeviceptr first = 0, second = 0;
  REQUIRE_OK(driver(cuMemAllocFromPoolAsync)(&first, 20 * megabyte, pool.handle, nullptr));
  CHECK_CODE(driver(cuMemAllocFromPoolAsync)(&second, 60 * megabyte, pool.handle, nullptr),
             CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE_OK(driver(cuMemFreeAsync)(first, nullptr));
}

TEST_CASE("the current pool of a device serves plain asynchronous allocations") {
  test_context context;
  CUmemoryPool standard = nullptr, now = nullptr;
  REQUIRE_OK(driver(cuDeviceGetDefaultMemPool)(&standard, 0));
  CUdeviceptr memory = 0;
  {
    test_pool pool;
    REQUIRE_OK(driver(cuDeviceSetMemPool)(0, pool.handle));
    REQUIRE_OK(driver(cuDeviceGetMemPool)(&now, 0));
    CHECK(now == pool.handle);
    REQUIRE_OK(driver(cuMemAllocAsync)(&memory, 100, nullptr));
    CUmemoryPool owner = nullptr;
    REQUIRE_OK(driver(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory));
    CHECK(owner == pool.handle);
  }
  REQUIRE_OK(driver(cuDeviceGetMemPool)(&now, 0));
  CHECK(now == standard);
  // The memory outlives the handle of its pool.
  REQUIRE_OK(driver(cuMemsetD8_v2)(memory, 1, 100));
  REQUIRE_OK(driver(cuMemFreeAsync)(memory, nullptr));
}

TEST_CASE("another device sees a pool's memory only after it was given access") {
  int devices = 0;
  REQUIRE_OK(driver(cuInit)(0));
  REQUIRE_OK(driver(cuDeviceGetCount)(&devices));
  if (devices < 2) return;
  test_context context;
  test_pool pool;
  CUdeviceptr memory = 0;
  REQUIRE_OK(driver(cuMemAllocFromPoolAsync)(&memory, 64, pool.handle, nullptr));
  REQUIRE_OK(driver(cuMemsetD8Async)(memory, 0, 64, nullptr));
  REQUIRE_OK(driver(cuCtxSynchronize)());
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  CUmemAccessDesc peer{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  REQUIRE_OK(driver(cuMemPoolGetAccess)(&flags, pool.handle, &peer.location));
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  {
    test_context second(1);
    test_module module;
    REQUIRE_OK(launch(module.function("raise"), 1, 1, nullptr, memory));
    CHECK_CODE(driver(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  REQUIRE_OK(driver(cuMemPoolSetAccess)(pool.handle, &peer, 1));
  REQUIRE_OK(driver(cuMemPoolGetAccess)(&flags, pool.handle, &peer.location));
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  {
    test_context second(1);
    test_module module;
    REQUIRE_OK(launch(module.function("raise"), 1, 1, nullptr, memory));
    REQUIRE_OK(driver(cuCtxSynchronize)());
  }
  CHECK(host_copy<int>(memory, 1)[0] == 1);
  REQUIRE_OK(driver(cuMemFreeAsync)(memory, nullptr));
}
