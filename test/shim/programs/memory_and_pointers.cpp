// SPDX-License-Identifier: Apache-2.0
// Device, pinned and registered memory: what the table says of pointers, copies of every kind and
// size between them, memsets, frees of what is and is not an allocation.
#include <cstring>

#include "test/loopback/programs/common.hpp"

using bytes = std::vector<unsigned char>;

static bytes pattern(size_t count, unsigned seed) {
  bytes data(count);
  for (size_t i = 0; i < count; ++i) data[i] = static_cast<unsigned char>(i * 31 + seed);
  return data;
}

static void copies_of_every_size() {
  for (size_t count :
       {size_t{1}, size_t{3}, size_t{4096}, size_t{65536}, size_t{65537}, size_t{1} << 20,
        (size_t{1} << 20) + 1, (size_t{5} << 20) + 13, size_t{40} << 20}) {
    CUdeviceptr a, b;
    CHECK(cuMemAlloc(&a, count + 64));
    CHECK(cuMemAlloc(&b, count + 64));
    const auto data = pattern(count, static_cast<unsigned>(count));
    bytes back(count);
    CHECK(cuMemcpyHtoD(a + 7, data.data(), count));
    CHECK(cuMemcpyDtoD(b + 1, a + 7, count));
    CHECK(cuMemcpyDtoH(back.data(), b + 1, count));
    REQUIRE(back == data);
    std::fill(back.begin(), back.end(), 0);
    CHECK(cuMemcpy(a, reinterpret_cast<CUdeviceptr>(data.data()), count));
    CHECK(cuMemcpyAsync(b, a, count, nullptr));
    CHECK(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(back.data()), b, count, nullptr));
    CHECK(cuStreamSynchronize(nullptr));
    REQUIRE(back == data);
    CHECK(cuMemFree(a));
    CHECK(cuMemFree(b));
  }
}

static void lengths_and_addresses_that_are_wrong() {
  CUdeviceptr a;
  int x = 0;
  CHECK(cuMemAlloc(&a, 256));
  CHECK(cuMemcpyHtoD(a, &x, 0));
  CHECK(cuMemcpyDtoH(&x, a, 0));
  CHECK(cuMemcpyDtoD(a, a, 0));
  CHECK(cuMemsetD8(a, 1, 0));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(a + 200, pattern(100, 0).data(), 100));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(a + 2, 1, 4));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&a, 0));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFree(a + 16));
  EXPECT_RESULT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&a, size_t{1} << 50));
  CHECK(cuMemFree(a));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFree(a));
}

static void memsets() {
  CUdeviceptr a;
  size_t pitch = 0;
  CHECK(cuMemAllocPitch(&a, &pitch, 100, 8, 4));
  REQUIRE(pitch >= 100);
  CHECK(cuMemsetD2D8(a, pitch, 0, pitch, 8));
  CHECK(cuMemsetD2D32(a, pitch, 0x01020304, 25, 8));
  bytes back(pitch * 8);
  CHECK(cuMemcpyDtoH(back.data(), a, back.size()));
  for (size_t row = 0; row < 8; ++row)
    for (size_t i = 0; i < pitch; ++i) REQUIRE(back[row * pitch + i] == (i < 100 ? 4 - i % 4 : 0));
  CHECK(cuMemsetD16Async(a, 0xabcd, 10, nullptr));
  CHECK(cuMemcpyDtoH(back.data(), a, 24));
  for (size_t i = 0; i < 20; ++i) REQUIRE(back[i] == (i % 2 == 0 ? 0xcd : 0xab));
  REQUIRE(back[20] == 4);
  CHECK(cuMemFree(a));
}

template <class Value>
static Value attribute(CUpointer_attribute which, CUdeviceptr pointer) {
  Value value{};
  CHECK(cuPointerGetAttribute(&value, which, pointer));
  return value;
}

static void what_is_known_of_pointers(const gpu& g) {
  CUdeviceptr a, b, base = 0;
  size_t size = 0;
  CHECK(cuMemAlloc(&a, 1000));
  CHECK(cuMemAlloc(&b, 1000));
  REQUIRE(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a + 999) == CU_MEMORYTYPE_DEVICE);
  REQUIRE(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, a) == g.context);
  REQUIRE(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a) == g.device);
  REQUIRE(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a + 5) == a);
  REQUIRE(attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, a + 5) == 1000);
  REQUIRE(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, a) == 0);
  REQUIRE(attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, a) !=
          attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, b));
  CHECK(cuMemGetAddressRange(&base, &size, a + 100));
  REQUIRE(base == a && size == 1000);
  int local = 0;
  unsigned type = 77;
  const auto stack = reinterpret_cast<CUdeviceptr>(&local);
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, stack));
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
  CUcontext context = g.context;
  void* out[] = {&type, &context};
  CHECK(cuPointerGetAttributes(2, wanted, out, stack));
  REQUIRE(type == 0 && context == nullptr);
  CHECK(cuMemFree(a));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
  CHECK(cuMemFree(b));
}

static void host_memory(const gpu& g) {
  void* pinned = nullptr;
  CHECK(cuMemHostAlloc(&pinned, 10'000, CU_MEMHOSTALLOC_PORTABLE));
  REQUIRE(reinterpret_cast<uintptr_t>(pinned) % 4096 == 0);
  const auto address = reinterpret_cast<CUdeviceptr>(pinned);
  REQUIRE(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 9999) ==
          CU_MEMORYTYPE_HOST);
  REQUIRE(attribute<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, address + 8) ==
          static_cast<char*>(pinned) + 8);
  unsigned flags = 0;
  CHECK(cuMemHostGetFlags(&flags, pinned));
  REQUIRE(flags == (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  CUdeviceptr a;
  CHECK(cuMemAlloc(&a, 10'000));
  std::memset(pinned, 0x3c, 10'000);
  CHECK(cuMemcpyHtoDAsync(a, pinned, 10'000, nullptr));
  std::memset(pinned, 0, 10'000);
  CHECK(cuMemcpyDtoHAsync(pinned, a, 10'000, nullptr));
  CHECK(cuStreamSynchronize(nullptr));
  for (int i = 0; i < 10'000; ++i) REQUIRE(static_cast<unsigned char*>(pinned)[i] == 0x3c);
  bytes mine(8192);
  CHECK(cuMemHostRegister(mine.data(), mine.size(), 0));
  EXPECT_RESULT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                cuMemHostRegister(mine.data() + 100, 10, 0));
  // Host to host through the unified copy.
  CHECK(cuMemcpy(reinterpret_cast<CUdeviceptr>(mine.data()), address, 8192));
  REQUIRE(mine[8191] == 0x3c);
  CHECK(cuMemHostUnregister(mine.data()));
  EXPECT_RESULT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(mine.data()));
  CUdeviceptr mapped;
  CHECK(cuMemHostGetDevicePointer(&mapped, pinned, 0));
  REQUIRE(mapped == address);
  CHECK(cuMemFreeHost(pinned));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(&flags));
  CHECK(cuMemFree(a));
  CHECK(cuCtxSetCurrent(g.context));
}

static void allocations_come_and_go() {
  std::vector<CUdeviceptr> held(200);
  for (int round = 0; round < 20; ++round) {
    for (auto& p : held) CHECK(cuMemAlloc(&p, 100 + static_cast<size_t>(round) * 37'000));
    for (auto& p : held) CHECK(cuMemsetD8(p, 1, 100));
    for (auto& p : held) CHECK(cuMemFree(p));
  }
}

int main() {
  gpu g;
  copies_of_every_size();
  lengths_and_addresses_that_are_wrong();
  memsets();
  what_is_known_of_pointers(g);
  host_memory(g);
  allocations_come_and_go();
  std::printf("PASSED\n");
  return 0;
}
