// SPDX-License-Identifier: Apache-2.0
// cuLink*: two texts that need each other, from memory and from a file, with all the options that a caller can see the
// effect of. The lines are the same on every device.
#include <cstring>
#include <string>

#include "test/loopback/programs/common.hpp"

static constexpr const char caller_ptx[] = R"(.version 7.0
.target sm_52
.address_size 64

.extern .func (.param .b32 answer) twice(.param .b32 value);
.extern .global .align 4 .u32 offset;

.visible .entry run(.param .u64 place, .param .u32 value)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [place];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd2, %rd1;
  {
    .param .b32 in;
    .param .b32 out;
    st.param.b32 [in], %r1;
    call.uni (out), twice, (in);
    ld.param.b32 %r2, [out];
  }
  ld.global.u32 %r3, [offset];
  add.u32 %r4, %r2, %r3;
  st.global.u32 [%rd2], %r4;
  ret;
}
)";

static constexpr const char callee_ptx[] = R"(.version 7.0
.target sm_52
.address_size 64

.visible .global .align 4 .u32 offset = 100;

.visible .func (.param .b32 answer) twice(.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [value];
  shl.b32 %r2, %r1, 1;
  st.param.b32 [answer], %r2;
  ret;
}
)";

static void* data_of(const char* text) { return const_cast<char*>(text); }

static int run(CUmodule module, CUdeviceptr place, int value) {
  CUfunction function;
  CHECK(cuModuleGetFunction(&function, module, "run"));
  void* parameters[] = {&place, &value};
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  int answer = 0;
  CHECK(cuMemcpyDtoH(&answer, place, sizeof(answer)));
  return answer;
}

static void from_memory(CUdeviceptr place) {
  char info[4'096] = "untouched", error[4'096] = "untouched";
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_WALL_TIME, CU_JIT_LOG_VERBOSE};
  void* values[] = {info, reinterpret_cast<void*>(sizeof(info)), error, reinterpret_cast<void*>(sizeof(error)), nullptr,
                    reinterpret_cast<void*>(1)};
  CUlinkState state;
  CHECK(cuLinkCreate(6, options, values, &state));
  CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, data_of(caller_ptx), sizeof(caller_ptx), "caller.ptx", 0, nullptr, nullptr));
  CUjit_option own[] = {CU_JIT_OPTIMIZATION_LEVEL};
  void* own_values[] = {reinterpret_cast<void*>(2)};
  CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, data_of(callee_ptx), sizeof(callee_ptx), "callee.ptx", 1, own, own_values));
  void *image = nullptr, *again = nullptr;
  size_t bytes = 0;
  CHECK(cuLinkComplete(state, &image, &bytes));
  REQUIRE(image != nullptr && bytes > 0);
  CHECK(cuLinkComplete(state, &again, nullptr));
  REQUIRE(again == image);
  REQUIRE(reinterpret_cast<std::uintptr_t>(values[1]) <= sizeof(info));
  REQUIRE(reinterpret_cast<std::uintptr_t>(values[3]) == std::strlen(error));
  CUmodule module;
  CHECK(cuModuleLoadData(&module, image));
  CHECK(cuLinkDestroy(state));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(reinterpret_cast<CUlinkState>(std::uintptr_t{0x28ull << 48 | 77})));
  std::printf("linked from memory: %d\n", run(module, place, 21));
  CHECK(cuModuleUnload(module));
}

static void from_file(CUdeviceptr place) {
  char path[] = "/tmp/gpuwire-linking-XXXXXX";
  const int descriptor = mkstemp(path);
  REQUIRE(descriptor >= 0);
  FILE* file = fdopen(descriptor, "w");
  REQUIRE(file != nullptr && std::fwrite(callee_ptx, 1, sizeof(callee_ptx) - 1, file) == sizeof(callee_ptx) - 1);
  std::fclose(file);
  CUlinkState state;
  CHECK(cuLinkCreate(0, nullptr, nullptr, &state));
  EXPECT_RESULT(CUDA_ERROR_FILE_NOT_FOUND, cuLinkAddFile(state, CU_JIT_INPUT_PTX, "/nonexistent/file.ptx", 0, nullptr, nullptr));
  CHECK(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr));
  CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, data_of(caller_ptx), sizeof(caller_ptx), nullptr, 0, nullptr, nullptr));
  std::remove(path);
  void* image = nullptr;
  CHECK(cuLinkComplete(state, &image, nullptr));
  CUlibrary library;
  CUmodule module;
  CHECK(cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cuLinkDestroy(state));
  CHECK(cuLibraryGetModule(&module, library));
  std::printf("linked from a file: %d\n", run(module, place, 4));
  CUdeviceptr offset = 0;
  size_t bytes = 0;
  CHECK(cuLibraryGetGlobal(&offset, &bytes, library, "offset"));
  int value = 1'000;
  CHECK(cuMemcpyHtoD(offset, &value, sizeof(value)));
  std::printf("with another offset of %zu bytes: %d\n", bytes, run(module, place, 4));
  CHECK(cuLibraryUnload(library));
}

// More than what rides in one message.
static void large(CUdeviceptr place) {
  std::string text = callee_ptx;
  while (text.size() < (3u << 20)) text += "// a comment that makes the text long, and then longer still\n";
  CUlinkState state;
  CHECK(cuLinkCreate(0, nullptr, nullptr, &state));
  CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, data_of(text.c_str()), text.size() + 1, "large", 0, nullptr, nullptr));
  CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, data_of(caller_ptx), sizeof(caller_ptx), "caller", 0, nullptr, nullptr));
  void* image = nullptr;
  CHECK(cuLinkComplete(state, &image, nullptr));
  CUmodule module;
  CHECK(cuModuleLoadData(&module, image));
  CHECK(cuLinkDestroy(state));
  std::printf("linked with a large text: %d\n", run(module, place, 5));
  CHECK(cuModuleUnload(module));
}

static void refusals() {
  char error[4'096] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {error, reinterpret_cast<void*>(sizeof(error))};
  CUlinkState state;
  CHECK(cuLinkCreate(2, options, values, &state));
  static constexpr const char broken[] = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry k() { frobnicate; }\n";
  EXPECT_RESULT(CUDA_ERROR_INVALID_PTX,
                cuLinkAddData(state, CU_JIT_INPUT_PTX, data_of(broken), sizeof(broken), "broken", 0, nullptr, nullptr));
  REQUIRE(std::strstr(error, "frobnicate") != nullptr);
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuLinkAddData(state, CU_JIT_INPUT_PTX, nullptr, 10, "null", 0, nullptr, nullptr));
  CHECK(cuLinkDestroy(state));

  CHECK(cuLinkCreate(0, nullptr, nullptr, &state));
  CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, data_of(caller_ptx), sizeof(caller_ptx), "caller", 0, nullptr, nullptr));
  void* image = nullptr;
  REQUIRE(cuLinkComplete(state, &image, nullptr) != CUDA_SUCCESS);
  CHECK(cuLinkDestroy(state));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuLinkCreate(1, nullptr, nullptr, &state));
  std::printf("refused what cannot be linked\n");
}

int main(int count, char** arguments) {
  gpu g;
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, sizeof(int)));
  from_memory(place);
  from_file(place);
  large(place);
  refusals();
  // A library of the toolkit, of which nothing is needed.
  if (count > 1) {
    CUlinkState state;
    void* image = nullptr;
    CHECK(cuLinkCreate(0, nullptr, nullptr, &state));
    CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, data_of(kernels_ptx), sizeof(kernels_ptx), "kernels", 0, nullptr, nullptr));
    CHECK(cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, arguments[1], 0, nullptr, nullptr));
    CHECK(cuLinkComplete(state, &image, nullptr));
    CHECK(cuLinkDestroy(state));
    std::printf("linked with %s\n", arguments[1]);
  }
  std::printf("PASSED\n");
}
