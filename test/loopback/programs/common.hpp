// SPDX-License-Identifier: Apache-2.0
// What the client programs of the loopback tests share: a check that ends the program, a context, three kernels in PTX.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda.h>

inline const char* name_of(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr ? name : "unknown error";
}

[[noreturn]] inline void stop(const char* what, CUresult result, int line) {
  std::printf("line %d: %s: %s (%d)\n", line, what, name_of(result), static_cast<int>(result));
  std::fflush(stdout);
  std::_Exit(1);
}

#define CHECK(call)                                                               \
  do {                                                                            \
    if (CUresult result_ = (call); result_ != CUDA_SUCCESS) stop(#call, result_, __LINE__); \
  } while (false)

#define REQUIRE(condition)                                                        \
  do {                                                                            \
    if (!(condition)) {                                                           \
      std::printf("line %d: not so: %s\n", __LINE__, #condition);                 \
      std::fflush(stdout);                                                        \
      std::_Exit(1);                                                              \
    }                                                                             \
  } while (false)

// For calls whose answer is part of the test.
#define EXPECT_RESULT(expected, call)                                             \
  do {                                                                            \
    if (CUresult result_ = (call); result_ != (expected)) {                       \
      std::printf("expected %s\n", #expected);                                    \
      stop(#call, result_, __LINE__);                                             \
    }                                                                             \
  } while (false)

// store(int* place, int value); busy(int* place, unsigned rounds): a loop that takes its time, then *place = rounds;
// fill(int* place, int value, unsigned count): one thread for each element.
inline constexpr const char kernels_ptx[] = R"(.version 7.0
.target sm_52
.address_size 64

.visible .entry store(.param .u64 place, .param .u32 value)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [place];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}

.visible .entry busy(.param .u64 place, .param .u32 rounds)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [place];
  ld.param.u32 %r1, [rounds];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, 0;
LOOP:
  st.volatile.global.u32 [%rd2], %r2;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra LOOP;
  st.global.u32 [%rd2], %r1;
  ret;
}

.visible .entry fill(.param .u64 place, .param .u32 value, .param .u32 count)
{
  .reg .pred %p<2>;
  .reg .b32 %r<7>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [place];
  ld.param.u32 %r1, [value];
  ld.param.u32 %r2, [count];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r2;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r6, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r1;
DONE:
  ret;
}
)";

struct gpu {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction store = nullptr, busy = nullptr, fill = nullptr;

  gpu() {
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, kernels_ptx));
    CHECK(cuModuleGetFunction(&store, module, "store"));
    CHECK(cuModuleGetFunction(&busy, module, "busy"));
    CHECK(cuModuleGetFunction(&fill, module, "fill"));
  }

  void launch_store(CUdeviceptr place, int value, CUstream stream = nullptr) const {
    void* parameters[] = {&place, &value};
    CHECK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }
  void launch_busy(CUdeviceptr place, unsigned rounds, CUstream stream = nullptr) const {
    void* parameters[] = {&place, &rounds};
    CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }
  void launch_fill(CUdeviceptr place, int value, unsigned count, CUstream stream = nullptr) const {
    void* parameters[] = {&place, &value, &count};
    CHECK(cuLaunchKernel(fill, (count + 127) / 128, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr));
  }

  // Rounds of busy() that take at least this long here.
  unsigned rounds_for(std::chrono::milliseconds time, CUdeviceptr place) const {
    for (unsigned rounds = 1'000;; rounds *= 2) {
      auto begin = std::chrono::steady_clock::now();
      launch_busy(place, rounds);
      CHECK(cuCtxSynchronize());
      if (std::chrono::steady_clock::now() - begin >= time) return rounds;
      if (rounds >= 0x40000000u) return rounds;
    }
  }
};

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}
