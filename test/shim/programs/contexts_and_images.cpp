// SPDX-License-Identifier: Apache-2.0
// Contexts made, stacked, destroyed and reset; modules and libraries by data and file; kernels by
// name and number; what an asynchronous error does to a context; context-local storage of the
// runtime's table.
#include <unistd.h>

#include <cstring>
#include <string>

#include "test/loopback/programs/common.hpp"

static void stack_of_contexts(const gpu& g) {
  CUcontext a, b, now = nullptr;
  CUdevice device = 99;
  CHECK(cuCtxCreate(&a, nullptr, 0, g.device));
  CHECK(cuCtxCreate(&b, nullptr, 0, g.device));
  CHECK(cuCtxGetCurrent(&now));
  REQUIRE(now == b);
  CHECK(cuCtxPopCurrent(&now));
  REQUIRE(now == b);
  CHECK(cuCtxGetCurrent(&now));
  REQUIRE(now == a);
  CHECK(cuCtxPushCurrent(b));
  CUdeviceptr in_b;
  CHECK(cuMemAlloc(&in_b, 64));
  CHECK(cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_CONTEXT, in_b));
  REQUIRE(now == b);
  unsigned long long id_a = 0, id_b = 0;
  CHECK(cuCtxGetId(a, &id_a));
  CHECK(cuCtxGetId(b, &id_b));
  REQUIRE(id_a != id_b);
  CUstream in_a_context = nullptr;
  CHECK(cuStreamCreate(&in_a_context, 0));
  CHECK(cuCtxDestroy(b));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_CONTEXT, in_b));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(in_a_context));
  CHECK(cuCtxGetCurrent(&now));
  REQUIRE(now == a);
  CHECK(cuCtxPushCurrent(a));
  CHECK(cuCtxDestroy(a));
  // It was current twice; what is left of it in the stack is known to be dead.
  EXPECT_RESULT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxGetDevice(&device));
  EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(a));
  EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(a));
  EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(reinterpret_cast<CUcontext>(&device)));
  CHECK(cuCtxSetCurrent(nullptr));
  CHECK(cuCtxSetCurrent(g.context));
}

static void modules(const gpu& g) {
  unsigned count = 0;
  CHECK(cuModuleGetFunctionCount(&count, g.module));
  REQUIRE(count == 3);
  CUfunction all[3], missing;
  CHECK(cuModuleEnumerateFunctions(all, 3, g.module));
  for (CUfunction f : all) REQUIRE(f == g.store || f == g.busy || f == g.fill);
  EXPECT_RESULT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&missing, g.module, "nothing"));
  size_t offset = 0, size = 0;
  CHECK(cuFuncGetParamInfo(g.fill, 1, &offset, &size));
  REQUIRE(offset == 8 && size == 4);
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(g.fill, 3, &offset, &size));
  const char* name = nullptr;
  CHECK(cuFuncGetName(&name, g.fill));
  REQUIRE(std::string(name) == "fill");
  CUmodule of = nullptr;
  CHECK(cuFuncGetModule(&of, g.fill));
  REQUIRE(of == g.module);
  CUmodule other;
  EXPECT_RESULT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&other, "/nonexistent/file.ptx"));
  char path[] = "/tmp/gpuwire-module-XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0 && write(file, kernels_ptx, sizeof kernels_ptx - 1) ==
                           static_cast<ssize_t>(sizeof kernels_ptx - 1));
  close(file);
  CHECK(cuModuleLoad(&other, path));
  unlink(path);
  CHECK(cuModuleGetFunction(&missing, other, "store"));
  CHECK(cuModuleUnload(other));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(other));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE,
                cuLaunchKernel(missing, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  int threads = 0;
  CHECK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, g.store));
  REQUIRE(threads > 0);
}

static void libraries(const gpu& g) {
  CUlibrary library, of;
  CHECK(cuLibraryLoadData(&library, kernels_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  CHECK(cuLibraryGetKernelCount(&count, library));
  REQUIRE(count == 3);
  CUkernel store;
  CHECK(cuLibraryGetKernel(&store, library, "store"));
  EXPECT_RESULT(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&store, library, "nothing"));
  CHECK(cuKernelGetLibrary(&of, store));
  REQUIRE(of == library);
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, 4));
  int value = 41, back = 0;
  void* parameters[] = {&place, &value};
  // A kernel is valid where a function is wanted.
  CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(store), 1, 1, 1, 1, 1, 1, 0, nullptr,
                       parameters, nullptr));
  CHECK(cuMemcpyDtoH(&back, place, 4));
  REQUIRE(back == 41);
  CUfunction function;
  CHECK(cuKernelGetFunction(&function, store));
  value = 42;
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK(cuMemcpyDtoH(&back, place, 4));
  REQUIRE(back == 42);
  CUmodule module;
  CHECK(cuLibraryGetModule(&module, library));
  CHECK(cuModuleGetFunction(&function, module, "store"));
  value = 43;
  struct {
    CUdeviceptr place;
    int value;
  } block = {place, 43};
  size_t block_bytes = 12;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &block_bytes, CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  CHECK(cuMemcpyDtoH(&back, place, 4));
  REQUIRE(back == 43);
  CHECK(cuMemFree(place));
  CHECK(cuLibraryUnload(library));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuKernelGetLibrary(&of, store));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(library));
  CHECK(cuCtxSetCurrent(g.context));
}

// Larger than what fits into a command.
static void a_large_image() {
  std::string text = kernels_ptx;
  while (text.size() < (size_t{3} << 20)) text += "// a line that says nothing, many times over\n";
  CUmodule module;
  CUfunction store;
  CHECK(cuModuleLoadData(&module, text.c_str()));
  CHECK(cuModuleGetFunction(&store, module, "store"));
  CHECK(cuModuleUnload(module));
}

static void launches_that_are_wrong(const gpu& g, CUdeviceptr place) {
  int value = 5;
  void* parameters[] = {&place, &value};
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                cuLaunchKernel(g.store, 0, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                cuLaunchKernel(g.store, 1, 70'000, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                cuLaunchKernel(g.store, 1, 1, 1, 2048, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                cuLaunchKernel(g.store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE,
                cuLaunchKernel(reinterpret_cast<CUfunction>(&value), 1, 1, 1, 1, 1, 1, 0, nullptr,
                               parameters, nullptr));
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY =
      config.blockDimZ = 1;
  CUlaunchAttribute attribute{};
  attribute.id = static_cast<CUlaunchAttributeID>(200);
  config.attrs = &attribute;
  config.numAttrs = 1;
  EXPECT_RESULT(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&config, g.store, parameters, nullptr));
  attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attribute.value.priority = 0;
  CHECK(cuLaunchKernelEx(&config, g.store, parameters, nullptr));
  CHECK(cuLaunchKernelEx(&config, g.store, parameters, nullptr));
  int back = 0;
  CHECK(cuMemcpyDtoH(&back, place, 4));
  REQUIRE(back == 5);
  int grid = 0, block = 0;
  CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, g.fill, nullptr, 0, 0));
  REQUIRE(grid > 0 && block > 0);
}

static int destroyed = 0;
static void on_destroy(CUcontext, void*, void* value) {
  destroyed += *static_cast<int*>(value);
}

// As the CUDA runtime does it: put, get, reset of the primary context, destructor.
static void storage_of_the_runtime(const gpu& g) {
  static const unsigned char id[16] = {0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11,
                                       0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93};
  CUuuid uuid;
  std::memcpy(uuid.bytes, id, 16);
  const void* table = nullptr;
  CHECK(cuGetExportTable(&table, &uuid));
  auto* slots = static_cast<void* const*>(table);
  auto put =
      reinterpret_cast<CUresult (*)(CUcontext, void*, void*, void (*)(CUcontext, void*, void*))>(
          slots[0]);
  auto erase = reinterpret_cast<CUresult (*)(CUcontext, void*)>(slots[1]);
  auto get = reinterpret_cast<CUresult (*)(void**, CUcontext, void*)>(slots[2]);
  int one = 1, ten = 10, key_a = 0, key_b = 0;
  void* value = nullptr;
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, get(&value, nullptr, &key_a));
  CHECK(put(nullptr, &key_a, &one, on_destroy));
  CHECK(put(g.context, &key_b, &ten, on_destroy));
  CHECK(get(&value, reinterpret_cast<CUcontext>(-1), &key_a));
  REQUIRE(value == &one);
  CHECK(erase(g.context, &key_a));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, erase(g.context, &key_a));
  REQUIRE(destroyed == 0);
  CHECK(cuDevicePrimaryCtxReset(g.device));
  REQUIRE(destroyed == 10);
}

static void an_error_poisons_the_context(const gpu& g) {
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, 4));
  g.launch_store(place, 1);
  CHECK(cuCtxSynchronize());
  g.launch_store(8, 1);  // posted: this configuration is known to be good
  EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  CUstream stream;
  EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamCreate(&stream, 0));
  EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree(place));
  size_t available, total;
  EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemGetInfo(&available, &total));
  int count = 0;
  CHECK(cuDeviceGetCount(&count));
  CUcontext now;
  CHECK(cuCtxGetCurrent(&now));
}

int main() {
  gpu g;
  unsigned flags = 99;
  int active = 0;
  CHECK(cuDevicePrimaryCtxGetState(g.device, &flags, &active));
  REQUIRE(active == 1);
  stack_of_contexts(g);
  modules(g);
  libraries(g);
  a_large_image();
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, 4));
  launches_that_are_wrong(g, place);
  storage_of_the_runtime(g);
  CHECK(cuDevicePrimaryCtxGetState(g.device, &flags, &active));
  REQUIRE(active == 0);
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE,
                cuLaunchKernel(g.store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  gpu again;
  an_error_poisons_the_context(again);
  std::printf("PASSED\n");
  return 0;
}
