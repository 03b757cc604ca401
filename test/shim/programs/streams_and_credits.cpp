// SPDX-License-Identifier: Apache-2.0
// Far more work than a stream may have outstanding, on minted, legacy and per-thread streams, from
// several threads; copies beyond the byte credit; handles that were destroyed, and threads that
// end.
#include <atomic>
#include <thread>

#include "test/loopback/programs/common.hpp"

extern "C" CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned, unsigned, unsigned, unsigned,
                                        unsigned, unsigned, unsigned, CUstream, void**, void**);
extern "C" CUresult cuMemcpyDtoH_v2_ptds(void*, CUdeviceptr, size_t);
extern "C" CUresult cuStreamSynchronize_ptsz(CUstream);

static int value_at(CUdeviceptr place) {
  int value = -1;
  CHECK(cuMemcpyDtoH(&value, place, sizeof value));
  return value;
}

static void many_launches(const gpu& g, CUdeviceptr place, CUstream stream, int count) {
  for (int i = 1; i <= count; ++i) g.launch_store(place, i, stream);
  CHECK(cuStreamSynchronize(stream));
  REQUIRE(value_at(place) == count);
}

static void per_thread_launches(const gpu& g, CUdeviceptr place, int count) {
  CHECK(cuCtxSetCurrent(g.context));
  for (int i = 1; i <= count; ++i) {
    void* parameters[] = {&place, &i};
    CHECK(cuLaunchKernel_ptsz(g.store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  }
  int value = 0;
  CHECK(cuMemcpyDtoH_v2_ptds(&value, place, sizeof value));
  REQUIRE(value == count);
  CHECK(cuStreamSynchronize_ptsz(nullptr));
}

static void threads_with_their_own_streams(const gpu& g) {
  constexpr int threads = 4, launches = 1500;
  CUdeviceptr places;
  CHECK(cuMemAlloc(&places, threads * 256));
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back(
        [&, t] { per_thread_launches(g, places + static_cast<unsigned>(t) * 256, launches); });
  for (auto& t : running) t.join();
  CHECK(cuMemFree(places));
}

static void copies_beyond_the_credit(CUstream stream) {
  constexpr size_t bytes = 1 << 20, count = 80;
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, bytes));
  std::vector<unsigned char> data(bytes), back(bytes);
  for (size_t i = 0; i < count; ++i) {
    std::fill(data.begin(), data.end(), static_cast<unsigned char>(i));
    CHECK(cuMemcpyHtoDAsync(place, data.data(), bytes, stream));
  }
  CHECK(cuMemcpyDtoHAsync(back.data(), place, bytes, stream));
  REQUIRE(back == data);
  CHECK(cuMemFree(place));
}

static void destroyed_handles(CUdeviceptr place) {
  CUstream stream;
  CUevent event;
  CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuEventDestroy(event));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(stream));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuMemsetD8Async(place, 0, 4, stream));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy(event));
  CUstream next;
  CHECK(cuStreamCreate(&next, CU_STREAM_DEFAULT));
  REQUIRE(next != stream);
  CHECK(cuStreamDestroy(next));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(nullptr));
}

static void threads_come_and_go(const gpu& g, CUdeviceptr place) {
  for (int i = 0; i < 300; ++i) {
    std::thread([&] {
      CUcontext current = g.context;
      CHECK(cuCtxGetCurrent(&current));
      REQUIRE(current == nullptr);
      EXPECT_RESULT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
      CHECK(cuCtxSetCurrent(g.context));
      g.launch_store(place, i);
      REQUIRE(value_at(place) == i);
    }).join();
  }
}

static void what_a_stream_says(const gpu& g) {
  CUstream stream;
  int priority = 99;
  unsigned flags = 99;
  CUcontext context = nullptr;
  CUdevice device = 99;
  unsigned long long one = 0, two = 0;
  CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -100));
  int least = 0, greatest = 0;
  CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
  CHECK(cuStreamGetPriority(stream, &priority));
  REQUIRE(priority == greatest);
  CHECK(cuStreamGetFlags(stream, &flags));
  REQUIRE(flags == CU_STREAM_NON_BLOCKING);
  CHECK(cuStreamGetCtx(stream, &context));
  REQUIRE(context == g.context);
  CHECK(cuStreamGetDevice(stream, &device));
  REQUIRE(device == g.device);
  CHECK(cuStreamGetId(stream, &one));
  CHECK(cuStreamGetId(nullptr, &two));
  REQUIRE(one != two);
  CHECK(cuStreamQuery(stream));
  CHECK(cuStreamDestroy(stream));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 6));
}

int main() {
  gpu g;
  CUdeviceptr place;
  CUstream stream;
  CHECK(cuMemAlloc(&place, 4096));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  many_launches(g, place, stream, 5000);
  many_launches(g, place, nullptr, 2000);
  many_launches(g, place, CU_STREAM_LEGACY, 700);
  many_launches(g, place, CU_STREAM_PER_THREAD, 2000);
  threads_with_their_own_streams(g);
  copies_beyond_the_credit(stream);
  destroyed_handles(place);
  threads_come_and_go(g, place);
  what_a_stream_says(g);
  // A stream's id lives anew with a count from zero.
  for (int round = 0; round < 5; ++round) {
    CUstream again;
    CHECK(cuStreamCreate(&again, CU_STREAM_DEFAULT));
    many_launches(g, place, again, 600);
    CHECK(cuStreamDestroy(again));
  }
  std::printf("PASSED\n");
  return 0;
}
