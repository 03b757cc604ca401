// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <map>
#include <random>

#include "driver.hpp"

TEST_CASE("allocations are aligned, do not overlap and can be found from inside") {
  test_context context;
  std::mt19937 random(3);
  std::map<CUdeviceptr, size_t> live;
  for (int round = 0; round < 2000; ++round) {
    if (live.size() > 300 || (!live.empty() && random() % 3 == 0)) {
      auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      REQUIRE_OK(driver(cuMemFree_v2)(victim->first));
      live.erase(victim);
      continue;
    }
    const size_t bytes = 1 + random() % 5000;
    CUdeviceptr address = 0;
    REQUIRE_OK(driver(cuMemAlloc_v2)(&address, bytes));
    CHECK(address % 512 == 0);
    auto above = live.lower_bound(address);
    if (above != live.end()) CHECK(address + bytes <= above->first);
    if (above != live.begin()) {
      auto below = std::prev(above);
      CHECK(below->first + below->second <= address);
    }
    live[address] = bytes;
  }
  for (const auto& [address, bytes] : live) {
    CUdeviceptr base = 0;
    size_t size = 0;
    REQUIRE_OK(driver(cuMemGetAddressRange_v2)(&base, &size, address + bytes / 2));
    CHECK(base == address);
    CHECK(size == bytes);
  }
}

TEST_CASE("frees of what is not an allocation give 1") {
  test_context context;
  CUdeviceptr memory = 0;
  REQUIRE_OK(driver(cuMemAlloc_v2)(&memory, 1024));
  int local = 0;
  CHECK_CODE(driver(cuMemFree_v2)(memory + 512), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemFree_v2)(reinterpret_cast<CUdeviceptr>(&local)), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemFree_v2)(8), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemFree_v2)(0), CUDA_SUCCESS);
  REQUIRE_OK(driver(cuMemFree_v2)(memory));
  CHECK_CODE(driver(cuMemFree_v2)(memory), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemAlloc_v2)(&memory, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemAlloc_v2)(nullptr, 16), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemFreeHost)(&local), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("pitched allocations have aligned rows") {
  test_context context;
  CUdeviceptr memory = 0;
  size_t pitch = 0;
  REQUIRE_OK(driver(cuMemAllocPitch_v2)(&memory, &pitch, 1000, 10, 4));
  CHECK(pitch >= 1000);
  CHECK(pitch % 512 == 0);
  CHECK_CODE(driver(cuMemAllocPitch_v2)(&memory, &pitch, 1000, 10, 5), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemAllocPitch_v2)(&memory, &pitch, 1000, ~size_t{0} / 4, 4),
             CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("pinned and registered memory is known by its own address") {
  test_context context;
  void* pinned = nullptr;
  REQUIRE_OK(driver(cuMemHostAlloc)(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE));
  CUdeviceptr device = 0;
  REQUIRE_OK(driver(cuMemHostGetDevicePointer_v2)(&device, pinned, 0));
  CHECK(device == reinterpret_cast<CUdeviceptr>(pinned));
  unsigned flags = 0;
  REQUIRE_OK(driver(cuMemHostGetFlags)(&flags, pinned));
  CHECK((flags & CU_MEMHOSTALLOC_PORTABLE) != 0);
  unsigned type = 0;
  REQUIRE_OK(driver(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 100));
  CHECK(type == CU_MEMORYTYPE_HOST);
  CHECK_CODE(driver(cuMemFreeHost)(static_cast<char*>(pinned) + 1), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuMemFreeHost)(pinned));
  CHECK_CODE(driver(cuMemFreeHost)(pinned), CUDA_ERROR_INVALID_VALUE);

  std::vector<char> own(10000);
  REQUIRE_OK(driver(cuMemHostRegister_v2)(own.data(), own.size(), 0));
  CHECK_CODE(driver(cuMemHostRegister_v2)(own.data() + 5000, 8000, 0),
             CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  REQUIRE_OK(driver(cuMemHostGetDevicePointer_v2)(&device, own.data() + 10, 0));
  CHECK_CODE(driver(cuMemHostUnregister)(own.data() + 10), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  REQUIRE_OK(driver(cuMemHostUnregister)(own.data()));
  CHECK_CODE(driver(cuMemHostUnregister)(own.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK_CODE(driver(cuMemHostGetDevicePointer_v2)(&device, own.data(), 0),
             CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("pointer attributes tell kinds of memory apart") {
  test_context context;
  CUdeviceptr memory = 0;
  REQUIRE_OK(driver(cuMemAlloc_v2)(&memory, 1000));
  unsigned type = 0;
  CUcontext owner = nullptr;
  CUdeviceptr start = 0;
  size_t bytes = 0;
  REQUIRE_OK(driver(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 999));
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  REQUIRE_OK(driver(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
  CHECK(owner == context.handle);
  REQUIRE_OK(
      driver(cuPointerGetAttribute)(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, memory + 7));
  REQUIRE_OK(driver(cuPointerGetAttribute)(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, memory + 7));
  CHECK(start == memory);
  CHECK(bytes == 1000);
  CHECK_CODE(driver(cuPointerGetAttribute)(&start, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 1000),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuPointerGetAttribute)(&type, static_cast<CUpointer_attribute>(99), memory),
             CUDA_ERROR_INVALID_VALUE);

  int local = 0;
  int ordinal = 0;
  owner = context.handle;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_CONTEXT,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* results[] = {&type, &owner, &ordinal};
  REQUIRE_OK(driver(cuPointerGetAttributes)(3, attributes, results,
                                            reinterpret_cast<CUdeviceptr>(&local)));
  CHECK(type == 0);
  CHECK(owner == nullptr);
  CHECK(ordinal == -2);
  REQUIRE_OK(driver(cuPointerGetAttributes)(3, attributes, results, memory));
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(ordinal == 0);
}
