// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: reserved addresses, physical memory, mappings and access.
#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "driver.hpp"

namespace {

constexpr size_t granule = 2u << 20;

CUmemAllocationProp device_properties(int device = 0) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return wanted;
}

CUmemGenericAllocationHandle create(size_t bytes) {
  const auto wanted = device_properties();
  CUmemGenericAllocationHandle made = 0;
  REQUIRE_OK(driver(cuMemCreate)(&made, bytes, &wanted, 0));
  return made;
}

CUdeviceptr reserve(size_t bytes) {
  CUdeviceptr base = 0;
  REQUIRE_OK(driver(cuMemAddressReserve)(&base, bytes, 0, 0, 0));
  return base;
}

void allow(CUdeviceptr base, size_t bytes,
           CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  const CUmemAccessDesc own{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
  REQUIRE_OK(driver(cuMemSetAccess)(base, bytes, &own, 1));
}

}  // namespace

TEST_CASE("mapped memory is used like other device memory, across its mappings") {
  test_context context;
  test_module module;
  const CUdeviceptr base = reserve(8 * granule);
  CHECK(base % granule == 0);
  const auto first = create(granule), second = create(2 * granule);
  REQUIRE_OK(driver(cuMemMap)(base, granule, 0, first, 0));
  REQUIRE_OK(driver(cuMemMap)(base + granule, 2 * granule, 0, second, 0));
  allow(base, 3 * granule);
  // The mappings keep the memory.
  REQUIRE_OK(driver(cuMemRelease)(first));
  REQUIRE_OK(driver(cuMemRelease)(second));

  REQUIRE_OK(driver(cuMemsetD32_v2)(base, 7, 3 * granule / 4));
  const CUdeviceptr border = base + granule - 8;
  const std::vector<int> values{1, 2, 3, 4};
  REQUIRE_OK(driver(cuMemcpyHtoD_v2)(border, values.data(), 16));
  CHECK(host_copy<int>(border, 4) == values);
  CHECK(host_copy<int>(base + 3 * granule - 4, 1)[0] == 7);
  REQUIRE_OK(launch(module.function("raise"), 1, 1, nullptr, base + granule));
  REQUIRE_OK(driver(cuCtxSynchronize)());
  CHECK(host_copy<int>(base + granule, 1)[0] == 1);
  CHECK_CODE(driver(cuMemsetD8_v2)(base + 3 * granule - 1, 0, 2), CUDA_ERROR_INVALID_VALUE);

  CUdeviceptr start = 0;
  size_t bytes = 0;
  REQUIRE_OK(
      driver(cuPointerGetAttribute)(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + granule));
  REQUIRE_OK(
      driver(cuPointerGetAttribute)(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + granule));
  CHECK(start == base);
  CHECK(bytes == 8 * granule);
  REQUIRE_OK(driver(cuPointerGetAttribute)(&start, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                                           base + granule + 4));
  REQUIRE_OK(
      driver(cuPointerGetAttribute)(&bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, base + granule + 4));
  CHECK(start == base + granule);
  CHECK(bytes == 2 * granule);

  CHECK_CODE(driver(cuMemAddressFree)(base, 8 * granule), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuMemUnmap)(base, 3 * granule));
  CHECK_CODE(driver(cuMemAddressFree)(base, 4 * granule), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuMemAddressFree)(base, 8 * granule));
}

TEST_CASE("memory keeps its content while it moves from address to address") {
  test_context context;
  const CUdeviceptr base = reserve(4 * granule);
  const auto memory = create(granule);
  REQUIRE_OK(driver(cuMemMap)(base, granule, 0, memory, 0));
  allow(base, granule);
  REQUIRE_OK(driver(cuMemsetD32_v2)(base, 42, 100));
  REQUIRE_OK(driver(cuCtxSynchronize)());
  REQUIRE_OK(driver(cuMemUnmap)(base, granule));
  REQUIRE_OK(driver(cuMemMap)(base + 2 * granule, granule, 0, memory, 0));
  allow(base + 2 * granule, granule);
  CHECK(host_copy<int>(base + 2 * granule, 100) == std::vector<int>(100, 42));
  // Mapped twice, it is the same memory.
  REQUIRE_OK(driver(cuMemMap)(base, granule, 0, memory, 0));
  allow(base, granule);
  REQUIRE_OK(driver(cuMemsetD32_v2)(base, 43, 1));
  CHECK(host_copy<int>(base + 2 * granule, 1)[0] == 43);
  REQUIRE_OK(driver(cuMemUnmap)(base, granule));
  REQUIRE_OK(driver(cuMemUnmap)(base + 2 * granule, granule));
  REQUIRE_OK(driver(cuMemRelease)(memory));
  REQUIRE_OK(driver(cuMemAddressFree)(base, 4 * granule));
}

TEST_CASE("kernels fault where nothing is mapped or access was not given") {
  const CUdeviceptr* where = nullptr;
  CUdeviceptr base = 0;
  {
    test_context context;
    base = reserve(4 * granule);
    const auto memory = create(granule);
    REQUIRE_OK(driver(cuMemMap)(base, granule, 0, memory, 0));
    REQUIRE_OK(driver(cuMemRelease)(memory));
    where = &base;
  }
  const auto write_there = [&](CUdeviceptr address) {
    test_context context;
    test_module module;
    REQUIRE_OK(launch(module.function("raise"), 1, 1, nullptr, address));
    return driver(cuCtxSynchronize)();
  };
  CHECK_CODE(write_there(*where), CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_CODE(write_there(*where + granule), CUDA_ERROR_ILLEGAL_ADDRESS);
  allow(base, granule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK_CODE(write_there(*where), CUDA_SUCCESS);
  REQUIRE_OK(driver(cuMemUnmap)(base, granule));
  CHECK_CODE(write_there(*where), CUDA_ERROR_ILLEGAL_ADDRESS);
  REQUIRE_OK(driver(cuMemAddressFree)(base, 4 * granule));
}

TEST_CASE("access, properties and handles of mapped memory can be asked for") {
  test_context context;
  const CUdeviceptr base = reserve(2 * granule);
  const auto memory = create(2 * granule);
  REQUIRE_OK(driver(cuMemMap)(base, 2 * granule, 0, memory, 0));
  unsigned long long flags = 77;
  const CUmemLocation own{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  REQUIRE_OK(driver(cuMemGetAccess)(&flags, &own, base));
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  allow(base, 2 * granule);
  REQUIRE_OK(driver(cuMemGetAccess)(&flags, &own, base + granule));
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

  CUmemAllocationProp given{};
  REQUIRE_OK(driver(cuMemGetAllocationPropertiesFromHandle)(&given, memory));
  CHECK(given.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  CHECK(given.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUmemGenericAllocationHandle again = 0;
  REQUIRE_OK(driver(cuMemRetainAllocationHandle)(&again, reinterpret_cast<void*>(base + 100)));
  CHECK(again == memory);
  REQUIRE_OK(driver(cuMemRelease)(memory));
  REQUIRE_OK(driver(cuMemRelease)(again));
  CHECK_CODE(driver(cuMemRetainAllocationHandle)(&again, reinterpret_cast<void*>(base - 1)),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuMemUnmap)(base, 2 * granule));
  REQUIRE_OK(driver(cuMemAddressFree)(base, 2 * granule));

  size_t bytes = 0;
  auto wanted = device_properties();
  REQUIRE_OK(
      driver(cuMemGetAllocationGranularity)(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK(bytes == granule);
  REQUIRE_OK(
      driver(cuMemGetAllocationGranularity)(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  CHECK(bytes == granule);
}

TEST_CASE("calls of virtual memory management refuse what is wrong") {
  test_context context;
  CUdeviceptr base = 0;
  CHECK_CODE(driver(cuMemAddressReserve)(&base, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemAddressReserve)(&base, granule, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemAddressReserve)(&base, granule, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemAddressReserve)(nullptr, granule, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemAddressReserve)(&base, size_t{1} << 60, 0, 0, 0),
             CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_CODE(driver(cuMemAddressFree)(4096, granule), CUDA_ERROR_INVALID_VALUE);

  auto wanted = device_properties();
  CUmemGenericAllocationHandle made = 0;
  CHECK_CODE(driver(cuMemCreate)(&made, 1000, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemCreate)(&made, granule, &wanted, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemCreate)(&made, granule, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemCreate)(&made, size_t{1} << 50, &wanted, 0), CUDA_ERROR_OUT_OF_MEMORY);
  wanted.location.id = 99;
  CHECK_CODE(driver(cuMemCreate)(&made, granule, &wanted, 0), CUDA_ERROR_INVALID_DEVICE);

  base = reserve(4 * granule);
  const auto memory = create(granule);
  CHECK_CODE(driver(cuMemMap)(base + 4096, granule, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemMap)(base, 2 * granule, 0, memory, 0), CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(driver(cuMemMap)(base, granule, granule, memory, 0), CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(driver(cuMemMap)(base + 4 * granule, granule, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuMemMap)(base, granule, 0, memory, 0));
  CHECK_CODE(driver(cuMemMap)(base, granule, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
  const CUmemAccessDesc own{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK_CODE(driver(cuMemSetAccess)(base, 2 * granule, &own, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemSetAccess)(base, granule, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemFree_v2)(base), CUDA_ERROR_INVALID_VALUE);
  // Gaps do not matter.
  REQUIRE_OK(driver(cuMemUnmap)(base, 2 * granule));
  REQUIRE_OK(driver(cuMemUnmap)(base, granule));
  REQUIRE_OK(driver(cuMemRelease)(memory));
  REQUIRE_OK(driver(cuMemAddressFree)(base, 4 * granule));
}

TEST_CASE("released memory is free again") {
  test_context context;
  size_t before = 0, between = 0, after = 0, total = 0;
  REQUIRE_OK(driver(cuMemGetInfo_v2)(&before, &total));
  const auto memory = create(16 * granule);
  REQUIRE_OK(driver(cuMemGetInfo_v2)(&between, &total));
  REQUIRE_OK(driver(cuMemRelease)(memory));
  REQUIRE_OK(driver(cuMemGetInfo_v2)(&after, &total));
  CHECK(before - between == 16 * granule);
  CHECK(after == before);
}

TEST_CASE("imported memory", "[.another process]") {
  test_context context;
  const char* given = std::getenv("TEST_DESCRIPTOR");
  REQUIRE(given != nullptr);
  std::intptr_t number = -1;
  REQUIRE(std::from_chars(given, given + std::strlen(given), number).ec == std::errc{});
  CUmemGenericAllocationHandle memory = 0;
  REQUIRE_OK(driver(cuMemImportFromShareableHandle)(
      &memory, reinterpret_cast<void*>(number),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  const CUdeviceptr base = reserve(granule);
  REQUIRE_OK(driver(cuMemMap)(base, granule, 0, memory, 0));
  allow(base, granule);
  CHECK(host_copy<int>(base, 1)[0] == 1234);
  REQUIRE_OK(driver(cuMemsetD32_v2)(base, 5678, 1));
  REQUIRE_OK(driver(cuCtxSynchronize)());
}

TEST_CASE("another process can map exported memory") {
  test_context context;
  const auto memory = create(granule);
  const CUdeviceptr base = reserve(granule);
  REQUIRE_OK(driver(cuMemMap)(base, granule, 0, memory, 0));
  allow(base, granule);
  REQUIRE_OK(driver(cuMemsetD32_v2)(base, 1234, 1));
  REQUIRE_OK(driver(cuCtxSynchronize)());
  int file = -1;
  REQUIRE_OK(driver(cuMemExportToShareableHandle)(&file, memory,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  REQUIRE(file >= 0);
  REQUIRE(fcntl(file, F_SETFD, 0) == 0);  // kept over exec
  CHECK(passes_in_another_process("imported memory", {{"TEST_DESCRIPTOR", std::to_string(file)}}));
  CHECK(host_copy<int>(base, 1)[0] == 5678);
  close(file);
  REQUIRE_OK(driver(cuMemUnmap)(base, granule));
  REQUIRE_OK(driver(cuMemRelease)(memory));
  REQUIRE_OK(driver(cuMemAddressFree)(base, granule));
}
