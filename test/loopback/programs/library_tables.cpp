// SPDX-License-Identifier: Apache-2.0
// The slots of the driver's export tables that NVIDIA's closed libraries call, as they call them, and tensor maps, which
// they encode for each kernel. All lines but the map's are the same on every device.
#include <cstring>

#include "test/loopback/programs/common.hpp"

static void* const* table_of(std::initializer_list<int> id) {
  CUuuid uuid{};
  std::copy(id.begin(), id.end(), uuid.bytes);
  const void* table = nullptr;
  CHECK(cuGetExportTable(&table, &uuid));
  REQUIRE(table != nullptr);
  return static_cast<void* const*>(table);
}

template <class Function>
static Function* slot(void* const* table, std::size_t number) {
  REQUIRE(reinterpret_cast<std::uintptr_t>(table[0]) > number * sizeof(void*));
  return reinterpret_cast<Function*>(table[number]);
}

static void keep(void* list, CUfunction function) {
  static_cast<std::vector<CUfunction>*>(list)->push_back(function);
}

// What an enumeration hands out can be launched.
static void kernels_of(CUcontext context, CUmodule module, const gpu& g, CUdeviceptr place) {
  auto* const table = table_of({0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e});
  auto* const each = slot<int(CUcontext, CUmodule, void (*)(void*, CUfunction), void*, CUmodule)>(table, 7);
  std::vector<CUfunction> functions;
  REQUIRE(each(context, module, keep, &functions, module) == 3);
  REQUIRE(functions.size() == 3);
  int found = 0;
  for (CUfunction f : functions) {
    const char* name = nullptr;
    CHECK(cuFuncGetName(&name, f));
    if (std::strcmp(name, "store") != 0) continue;
    ++found;
    int value = 77, read = 0;
    void* parameters[] = {&place, &value};
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    CHECK(cuMemcpyDtoH(&read, place, sizeof(read)));
    REQUIRE(read == 77);
  }
  REQUIRE(found == 1);
  g.launch_store(place, 1);
  std::printf("kernels of a module: 3\n");
}

static void contexts(CUcontext context) {
  auto* const current = slot<CUresult(CUcontext*)>(
      table_of({0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc}), 2);
  CUcontext seen = nullptr;
  CHECK(current(&seen));
  REQUIRE(seen == context);
  unsigned long long wanted = 0;
  CHECK(cuCtxGetId(context, &wanted));
  std::uint64_t first = 0, second = 0;
  CHECK((slot<CUresult(CUcontext, std::uint64_t*)>(
      table_of({0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2}), 4)(context, &first)));
  CHECK((slot<CUresult(CUcontext, std::uint64_t*)>(
      table_of({0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66}), 4)(context, &second)));
  REQUIRE(first == wanted && second == wanted);
  std::printf("context ids agree\n");
}

static void processors(CUdevice device) {
  auto* const table = table_of({0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca});
  std::uint8_t *gpc = nullptr, *row = nullptr;
  CHECK(slot<CUresult(std::uint8_t**, std::uint8_t**)>(table, 4)(&gpc, &row));
  REQUIRE(gpc != nullptr && row != nullptr);
  int count = 0;
  CHECK(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  // row[i] says how many TPCs of the same GPC came before i.
  for (int i = 0; i < (count + 1) / 2; ++i) REQUIRE(row[i] == std::count(gpc, gpc + i, gpc[i]));
  CHECK(slot<CUresult(std::uint8_t*, std::uint8_t*)>(table, 13)(gpc, row));
  std::printf("rows follow from the GPCs\n");
}

// 128 bytes that depend on every argument, where the device has tensor maps; the same refusals everywhere.
static void tensor_maps(CUdevice device, CUdeviceptr place) {
  int supported = 0;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, device));
  CUtensorMap map{}, other{};
  cuuint64_t dimensions[] = {64, 32}, strides[] = {256};
  cuuint32_t box[] = {16, 8}, steps[] = {1, 1};
  auto encode = [&](CUtensorMap* to, cuuint32_t rank, CUdeviceptr address) {
    return cuTensorMapEncodeTiled(to, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, reinterpret_cast<void*>(address), dimensions, strides,
                                  box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  if (supported == 0) {
    EXPECT_RESULT(CUDA_ERROR_NOT_SUPPORTED, encode(&map, 2, place));
    std::printf("tensor maps: not on this device\n");
    return;
  }
  CHECK(encode(&map, 2, place));
  CHECK(encode(&other, 2, place + 16));
  REQUIRE(std::memcmp(&map, &other, sizeof map) != 0);
  CHECK(cuTensorMapReplaceAddress(&other, reinterpret_cast<void*>(place)));
  REQUIRE(std::memcmp(&map, &other, sizeof map) == 0);
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, encode(&map, 0, place));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, encode(&map, 6, place));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, encode(nullptr, 2, place));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, encode(&map, 2, place + 1));
  std::printf("tensor maps: encoded\n");
}

int main() {
  gpu g;
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, 1 << 16));
  kernels_of(g.context, g.module, g, place);
  CUlibrary library;
  CUmodule module;
  CHECK(cuLibraryLoadData(&library, kernels_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cuLibraryGetModule(&module, library));
  kernels_of(g.context, module, g, place);
  contexts(g.context);
  processors(g.device);
  tensor_maps(g.device, place);
  CHECK(cuLibraryUnload(library));
  std::printf("PASSED\n");
}
