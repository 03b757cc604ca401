// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA 3, which the library still exports: a function that carries its launch, and 32-bit addresses.
#include <dlfcn.h>

#include "test/loopback/programs/common.hpp"

template <class Function>
static Function* find(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  REQUIRE(library != nullptr);
  auto* function = reinterpret_cast<Function*>(dlsym(library, name));
  REQUIRE(function != nullptr);
  return function;
}

static void launches(const gpu& g, CUdeviceptr place) {
  auto* block = find<CUresult(CUfunction, int, int, int)>("cuFuncSetBlockShape");
  auto* shared = find<CUresult(CUfunction, unsigned)>("cuFuncSetSharedSize");
  auto* size = find<CUresult(CUfunction, unsigned)>("cuParamSetSize");
  auto* integer = find<CUresult(CUfunction, int, unsigned)>("cuParamSeti");
  auto* memory = find<CUresult(CUfunction, int, void*, unsigned)>("cuParamSetv");
  auto* launch_grid = find<CUresult(CUfunction, int, int)>("cuLaunchGrid");
  auto* launch_async = find<CUresult(CUfunction, int, int, CUstream)>("cuLaunchGridAsync");
  auto* launch = find<CUresult(CUfunction)>("cuLaunch");
  constexpr unsigned count = 300;
  CHECK(cuMemsetD32(place, 0, count));
  CHECK(block(g.fill, 64, 1, 1));
  CHECK(shared(g.fill, 0));
  CHECK(memory(g.fill, 0, &place, sizeof place));
  CHECK(integer(g.fill, 8, 7));
  CHECK(integer(g.fill, 12, count));
  CHECK(size(g.fill, 16));
  CHECK(launch_grid(g.fill, 2, 1));
  std::vector<int> values(count);
  CHECK(cuMemcpyDtoH(values.data(), place, count * sizeof(int)));
  for (unsigned i = 0; i < count; ++i) REQUIRE(values[i] == (i < 128 ? 7 : 0));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(integer(g.fill, 8, 9));
  CHECK(launch_async(g.fill, 5, 1, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH(values.data(), place, count * sizeof(int)));
  for (unsigned i = 0; i < count; ++i) REQUIRE(values[i] == 9);
  CHECK(integer(g.fill, 8, 11));
  CHECK(launch(g.fill));
  CHECK(cuMemcpyDtoH(values.data(), place, count * sizeof(int)));
  for (unsigned i = 0; i < count; ++i) REQUIRE(values[i] == (i < 64 ? 11 : 9));
  CHECK(cuStreamDestroy(stream));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, block(g.fill, 0, 1, 1));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, launch_grid(g.fill, 0, 1));
  std::printf("functions that carry their launch\n");
}

// Sizes that do not fit are told as the largest; addresses of this device do not fit at all.
static void narrow(const gpu& g) {
  unsigned total = 0, free_bytes = 0;
  size_t wide = 0, wide_free = 0;
  CHECK(cuDeviceTotalMem(&wide, g.device));
  CHECK((find<CUresult(unsigned*, CUdevice)>("cuDeviceTotalMem")(&total, g.device)));
  REQUIRE(total == std::min<size_t>(wide, ~0u));
  CHECK((find<CUresult(unsigned*, unsigned*)>("cuMemGetInfo")(&free_bytes, &total)));
  CHECK(cuMemGetInfo(&wide_free, &wide));
  REQUIRE(total == std::min<size_t>(wide, ~0u));
  int value = 0;
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, (find<CUresult(unsigned, const void*, unsigned)>("cuMemcpyHtoD")(0x1000, &value, sizeof value)));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, (find<CUresult(unsigned)>("cuMemFree")(0x1000)));
  std::printf("32-bit sizes\n");
}

int main() {
  gpu g;
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, 4096));
  launches(g, place);
  narrow(g);
  CHECK(cuMemFree(place));
  std::printf("PASSED\n");
}
