// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "driver.hpp"

TEST_CASE("two devices with different identities are there when the environment asks for two") {
  REQUIRE_OK(driver(cuInit)(0));
  int count = 0;
  REQUIRE_OK(driver(cuDeviceGetCount)(&count));
  REQUIRE(count == 2);
  CUuuid first{}, second{};
  REQUIRE_OK(driver(cuDeviceGetUuid_v2)(&first, 0));
  REQUIRE_OK(driver(cuDeviceGetUuid_v2)(&second, 1));
  CHECK(std::memcmp(&first, &second, sizeof first) != 0);
  CUuuid again{};
  REQUIRE_OK(driver(cuDeviceGetUuid)(&again, 0));
  CHECK(std::memcmp(&first, &again, sizeof first) == 0);

  char name[64];
  REQUIRE_OK(driver(cuDeviceGetName)(name, sizeof name, 0));
  CHECK(std::string(name) == "gpuwire soft GPU");
  char bus[2][32];
  for (int device = 0; device < 2; ++device) {
    REQUIRE_OK(driver(cuDeviceGetPCIBusId)(bus[device], sizeof bus[device], device));
    CUdevice back = -1;
    REQUIRE_OK(driver(cuDeviceGetByPCIBusId)(&back, bus[device]));
    CHECK(back == device);
  }
}

TEST_CASE("device ordinals that do not exist give 101 and null results give 1") {
  REQUIRE_OK(driver(cuInit)(0));
  CUdevice device = 0;
  CHECK_CODE(driver(cuDeviceGet)(&device, 2), CUDA_ERROR_INVALID_DEVICE);
  CHECK_CODE(driver(cuDeviceGet)(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  CHECK_CODE(driver(cuDeviceGet)(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  size_t bytes = 0;
  CHECK_CODE(driver(cuDeviceTotalMem_v2)(&bytes, 7), CUDA_ERROR_INVALID_DEVICE);
  CHECK_CODE(driver(cuDeviceTotalMem_v2)(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuDeviceGetByPCIBusId)(&device, "0000:99:00.0"), CUDA_ERROR_INVALID_DEVICE);
  CHECK_CODE(driver(cuDeviceGetByPCIBusId)(&device, "nonsense"), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("exactly the attributes that the driver knows are answered") {
  REQUIRE_OK(driver(cuInit)(0));
  for (int attribute = -2; attribute <= 160; ++attribute) {
    int value = -77;
    const bool known = attribute >= 1 && attribute <= 147;
    INFO("attribute " << attribute);
    CHECK_CODE(driver(cuDeviceGetAttribute)(&value, static_cast<CUdevice_attribute>(attribute), 0),
               known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    CHECK((value != -77) == known);
  }
  const auto value_of = [](CUdevice_attribute attribute) {
    int value = -77;
    REQUIRE_OK(driver(cuDeviceGetAttribute)(&value, attribute, 0));
    return value;
  };
  CHECK(value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 9);
  CHECK(value_of(CU_DEVICE_ATTRIBUTE_WARP_SIZE) == 32);
  CHECK(value_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) >= 1);
  CHECK(value_of(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 1);
  CHECK(value_of(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 1);
  CHECK(value_of(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 1);
  CHECK(value_of(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 1);
}

TEST_CASE("memory accounting follows allocations") {
  test_context context;
  size_t free_before = 0, free_between = 0, free_after = 0, total = 0, device_total = 0;
  REQUIRE_OK(driver(cuMemGetInfo_v2)(&free_before, &total));
  REQUIRE_OK(driver(cuDeviceTotalMem_v2)(&device_total, 0));
  CHECK(total == device_total);
  CUdeviceptr memory = 0;
  REQUIRE_OK(driver(cuMemAlloc_v2)(&memory, 1 << 20));
  REQUIRE_OK(driver(cuMemGetInfo_v2)(&free_between, &total));
  CHECK(free_before - free_between == 1 << 20);
  REQUIRE_OK(driver(cuMemFree_v2)(memory));
  REQUIRE_OK(driver(cuMemGetInfo_v2)(&free_after, &total));
  CHECK(free_after == free_before);
  CHECK_CODE(driver(cuMemAlloc_v2)(&memory, total + 1), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_CODE(driver(cuMemAlloc_v2)(&memory, ~size_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
}
