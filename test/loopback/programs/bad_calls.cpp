// SPDX-License-Identifier: Apache-2.0
// Calls that the driver refuses: unreadable device code, handles that are none, launches that cannot be. Each gives its code
// at the call, and the session is as good as before.
#include <cstring>
#include <string>

#include "test/loopback/programs/common.hpp"

static void still_good(const gpu& g, CUdeviceptr place) {
  static int number = 0;
  int value = 0;
  g.launch_store(place, ++number);
  CHECK(cuMemcpyDtoH(&value, place, sizeof(value)));
  REQUIRE(value == number);
}

static void unreadable_code(const gpu& g, CUdeviceptr place) {
  CUmodule module;
  for (const char* text : {"this is no PTX", ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry broken( {\n",
                           ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry k()\n{\n  frobnicate.u32 %r1;\n  ret;\n}\n"}) {
    CUresult result = cuModuleLoadData(&module, text);
    REQUIRE(result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_NO_BINARY_FOR_GPU);
    std::printf("'%.16s...': %s\n", text, name_of(result));
    still_good(g, place);
  }
  char log[2'048] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
  CUresult result = cuModuleLoadDataEx(&module, ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry k() { frobnicate; }\n",
                                       2, options, values);
  REQUIRE(result != CUDA_SUCCESS);
  std::printf("log: %s\n", log);
  REQUIRE(std::strstr(log, "frobnicate") != nullptr);
  still_good(g, place);
}

static void no_handles(const gpu& g, CUdeviceptr place) {
  CUfunction function;
  CUstream stream;
  CUevent event;
  EXPECT_RESULT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, g.module, "no_such_kernel"));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  CHECK(cuEventDestroy(event));
  for (std::uintptr_t number : {std::uintptr_t{5}, std::uintptr_t{0xdeadbeef}, ~std::uintptr_t{0} - 7,
                                reinterpret_cast<std::uintptr_t>(event), reinterpret_cast<std::uintptr_t>(g.module)}) {
    REQUIRE(cuStreamSynchronize(reinterpret_cast<CUstream>(number)) != CUDA_SUCCESS);
    REQUIRE(cuEventSynchronize(reinterpret_cast<CUevent>(number == reinterpret_cast<std::uintptr_t>(event) ? 5 : number)) !=
            CUDA_SUCCESS);
    still_good(g, place);
  }
  REQUIRE(cuStreamSynchronize(stream) != CUDA_SUCCESS);
  REQUIRE(cuMemFree(place + 4) != CUDA_SUCCESS);
  REQUIRE(cuMemFree(0x10) != CUDA_SUCCESS);
  still_good(g, place);
}

static void impossible_launches(const gpu& g, CUdeviceptr place) {
  int value = 1;
  void* parameters[] = {&place, &value};
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(g.store, 0, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(g.store, 1, 1, 1, 2'048, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(g.store, 1, 1, 1, 1, 1, 1, 16 << 20, nullptr, parameters, nullptr));
  still_good(g, place);
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&place, 0));
  EXPECT_RESULT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&place, size_t{1} << 50));
}

// The driver looks at where the addresses lie: a copy that names the wrong direction, or that is longer than the memory
// on the device, never touches the host side.
static void wrong_copies(const gpu& g, CUdeviceptr place) {
  for (size_t bytes : {size_t{64}, size_t{200'000}, size_t{4} << 20}) {
    CUdeviceptr from, to;
    CHECK(cuMemAlloc(&from, bytes));
    CHECK(cuMemAlloc(&to, bytes));
    CHECK(cuMemsetD8(from, 9, bytes));
    std::vector<unsigned char> host(bytes, 1);
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(host.data()), reinterpret_cast<void*>(from), bytes));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                  cuMemcpyDtoH(reinterpret_cast<void*>(to), reinterpret_cast<CUdeviceptr>(host.data()), bytes));
    CHECK(cuMemcpyHtoD(to, reinterpret_cast<void*>(from), bytes));
    CHECK(cuMemcpyDtoH(host.data(), to, bytes));
    REQUIRE(host.front() == 9 && host.back() == 9);
    CHECK(cuMemsetD8(from, 7, bytes));
    CHECK(cuMemcpyDtoH(reinterpret_cast<void*>(to), from, bytes));
    CHECK(cuMemcpyDtoH(host.data(), to, bytes));
    REQUIRE(host.front() == 7 && host.back() == 7);
    void* pinned;
    CHECK(cuMemAllocHost(&pinned, bytes));
    auto* const seen = static_cast<unsigned char*>(pinned);
    CHECK(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(pinned), reinterpret_cast<void*>(from), bytes));
    REQUIRE(seen[0] == 7 && seen[bytes - 1] == 7);
    CHECK(cuMemsetD8(from, 5, bytes));
    CHECK(cuMemcpyDtoD(reinterpret_cast<CUdeviceptr>(pinned), from, bytes));
    REQUIRE(seen[0] == 5 && seen[bytes - 1] == 5);
    CHECK(cuMemcpyDtoH(host.data(), reinterpret_cast<CUdeviceptr>(pinned), bytes));
    REQUIRE(host.front() == 5 && host.back() == 5);
    CHECK(cuMemFreeHost(pinned));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(to, host.data(), size_t{1} << 40));
    EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(host.data(), from, size_t{1} << 40));
    CHECK(cuMemFree(from));
    CHECK(cuMemFree(to));
    still_good(g, place);
  }
}

// Copies of two dimensions between every two places; what lies between the rows stays as it was.
static void rows(const gpu& g, CUdeviceptr place) {
  constexpr size_t pitch = 512, width = 100, height = 30;
  CUdeviceptr device;
  CHECK(cuMemAlloc(&device, pitch * height));
  CHECK(cuMemsetD8(device, 3, pitch * height));
  std::vector<unsigned char> tight(width * height), wide(pitch * height, 1), all(pitch * height);
  for (size_t i = 0; i < tight.size(); ++i) tight[i] = static_cast<unsigned char>(i % 251);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = tight.data();
  copy.srcPitch = width;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = device;
  copy.dstPitch = pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  CHECK(cuMemcpy2DAsync(&copy, nullptr));
  CHECK(cuMemcpyDtoH(all.data(), device, all.size()));
  for (size_t i = 0; i < all.size(); ++i)
    REQUIRE(all[i] == (i % pitch < width ? tight[i / pitch * width + i % pitch] : 3));
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = device;
  copy.srcPitch = pitch;
  copy.srcXInBytes = 7;
  copy.srcY = 2;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = wide.data();
  copy.WidthInBytes = 50;
  copy.Height = 10;
  CHECK(cuMemcpy2D(&copy));
  for (size_t i = 0; i < wide.size(); ++i)
    REQUIRE(wide[i] == (i % pitch < 50 && i / pitch < 10 ? tight[(i / pitch + 2) * width + i % pitch + 7] : 1));
  copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = tight.data();
  copy.dstHost = wide.data();
  copy.WidthInBytes = tight.size();
  copy.Height = 1;
  CHECK(cuMemcpy2DUnaligned(&copy));
  REQUIRE(std::equal(tight.begin(), tight.end(), wide.begin()));
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = 0x1000;
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&copy));
  copy.dstDevice = device;
  copy.srcPitch = 10;
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&copy));
  CHECK(cuMemFree(device));
  still_good(g, place);
}

// Freed memory is refused at once, however long the server takes over the free; what gets the address next is good again.
static void freed_memory(const gpu& g, CUdeviceptr place) {
  for (size_t bytes : {size_t{64}, size_t{4} << 20}) {
    std::vector<unsigned char> host(bytes, 6);
    for (int round = 0; round < 100; ++round) {
      CUdeviceptr gone, kept;
      CHECK(cuMemAlloc(&gone, bytes));
      CHECK(cuMemFree(gone));
      EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(gone, host.data(), bytes));
      EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(host.data(), gone + 1, 8));
      EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(gone, 0, bytes));
      EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(place, gone, 4));
      CHECK(cuMemAlloc(&kept, bytes));
      CHECK(cuMemcpyHtoD(kept, host.data(), bytes));
      CHECK(cuMemcpyDtoH(host.data(), kept, bytes));
      CHECK(cuMemFree(kept));
    }
    REQUIRE(host.front() == 6 && host.back() == 6);
  }
  still_good(g, place);
}

// Last: a wild store ends the context, not the daemon.
static void wild_store(const gpu& g) {
  int count = 0;
  size_t available, total;
  CUlibrary library;
  CHECK(cuLibraryLoadData(&library, kernels_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  g.launch_store(8, 1);
  EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemGetInfo(&available, &total));
  CHECK(cuDeviceGetCount(&count));
  // What the runtime does before it resets a device.
  CHECK(cuLibraryUnload(library));
}

int main() {
  gpu g;
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, sizeof(int)));
  unreadable_code(g, place);
  no_handles(g, place);
  impossible_launches(g, place);
  wrong_copies(g, place);
  rows(g, place);
  freed_memory(g, place);
  wild_store(g);
  std::printf("PASSED\n");
}
