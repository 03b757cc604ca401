// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <thread>

#include "driver.hpp"

namespace {

using namespace std::chrono_literals;

// A stream that is held until open() by a value in pinned memory, as a long kernel would hold it.
class gate {
 public:
  explicit gate(CUstream stream) {
    REQUIRE_OK(driver(cuMemAllocHost_v2)(reinterpret_cast<void**>(&value_), sizeof *value_));
    std::atomic_ref(*value_).store(0);
    REQUIRE_OK(driver(cuStreamWaitValue32_v2)(stream, reinterpret_cast<CUdeviceptr>(value_), 1,
                                              CU_STREAM_WAIT_VALUE_EQ));
  }
  ~gate() { open(); }
  void open() { std::atomic_ref(*value_).store(1); }

 private:
  unsigned* value_ = nullptr;
};

CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  REQUIRE_OK(driver(cuStreamCreate)(&stream, flags));
  return stream;
}

CUevent make_event(unsigned flags = 0) {
  CUevent event = nullptr;
  REQUIRE_OK(driver(cuEventCreate)(&event, flags));
  return event;
}

CUstream stream_handle(std::uintptr_t number) {
  return reinterpret_cast<CUstream>(number);
}

}  // namespace

TEST_CASE("a stream runs in order and says whether it is done") {
  test_context context;
  const CUstream stream = make_stream();
  CHECK_CODE(driver(cuStreamQuery)(stream), CUDA_SUCCESS);
  const CUdeviceptr memory = device_array<int>({1});
  int* pinned = nullptr;
  REQUIRE_OK(driver(cuMemAllocHost_v2)(reinterpret_cast<void**>(&pinned), 8));
  gate hold(stream);
  REQUIRE_OK(driver(cuMemsetD32Async)(memory, 2, 1, stream));
  REQUIRE_OK(driver(cuMemcpyDtoHAsync_v2)(&pinned[0], memory, 4, stream));
  REQUIRE_OK(driver(cuMemsetD32Async)(memory, 3, 1, stream));
  REQUIRE_OK(driver(cuMemcpyDtoHAsync_v2)(&pinned[1], memory, 4, stream));
  CHECK_CODE(driver(cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
  CHECK(host_copy<int>(memory, 1)[0] == 1);
  hold.open();
  REQUIRE_OK(driver(cuStreamSynchronize)(stream));
  CHECK(pinned[0] == 2);
  CHECK(pinned[1] == 3);
  CHECK_CODE(driver(cuStreamQuery)(stream), CUDA_SUCCESS);
}

TEST_CASE("a pageable source may be overwritten as soon as the copy returns") {
  test_context context;
  const CUstream stream = make_stream();
  const CUdeviceptr memory = device_array<int>({0});
  gate hold(stream);
  int source = 5;
  REQUIRE_OK(driver(cuMemcpyHtoDAsync_v2)(memory, &source, 4, stream));
  source = 6;
  hold.open();
  REQUIRE_OK(driver(cuStreamSynchronize)(stream));
  CHECK(host_copy<int>(memory, 1)[0] == 5);
}

TEST_CASE("the legacy stream and blocking streams wait for one another, non-blocking ones do not") {
  test_context context;
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT), free_running = make_stream();
  {
    gate hold(blocking);
    REQUIRE_OK(driver(cuLaunchHostFunc)(
        nullptr, [](void*) {}, nullptr));
    CHECK_CODE(driver(cuStreamQuery)(nullptr), CUDA_ERROR_NOT_READY);
    CHECK_CODE(driver(cuStreamQuery)(free_running), CUDA_SUCCESS);
    hold.open();
    REQUIRE_OK(driver(cuStreamSynchronize)(nullptr));
    CHECK_CODE(driver(cuStreamQuery)(blocking), CUDA_SUCCESS);
  }
  {
    gate hold(nullptr);
    const CUevent event = make_event();
    REQUIRE_OK(driver(cuEventRecord)(event, blocking));
    std::this_thread::sleep_for(5ms);
    CHECK_CODE(driver(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
    REQUIRE_OK(driver(cuEventRecord)(event, CU_STREAM_PER_THREAD));
    CHECK_CODE(driver(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
    REQUIRE_OK(driver(cuEventRecord)(event, free_running));
    CHECK_CODE(driver(cuEventQuery)(event), CUDA_SUCCESS);
  }
  REQUIRE_OK(driver(cuCtxSynchronize)());
}

TEST_CASE("events order streams, time them and are complete only when what they cover is") {
  test_context context;
  const CUstream one = make_stream(), two = make_stream();
  const CUevent begin = make_event(), end = make_event(),
                untimed = make_event(CU_EVENT_DISABLE_TIMING);
  float milliseconds = -1;
  CHECK_CODE(driver(cuEventElapsedTime_v2)(&milliseconds, begin, end), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(driver(cuEventQuery)(begin), CUDA_SUCCESS);
  REQUIRE_OK(driver(cuEventRecord)(begin, one));
  gate hold(one);
  REQUIRE_OK(driver(cuEventRecord)(end, one));
  REQUIRE_OK(driver(cuStreamWaitEvent)(two, end, 0));
  std::atomic<bool> called{false};
  REQUIRE_OK(driver(cuLaunchHostFunc)(
      two, [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }, &called));
  std::this_thread::sleep_for(10ms);
  CHECK_CODE(driver(cuEventQuery)(begin), CUDA_SUCCESS);
  CHECK_CODE(driver(cuEventQuery)(end), CUDA_ERROR_NOT_READY);
  CHECK_CODE(driver(cuEventElapsedTime)(&milliseconds, begin, end), CUDA_ERROR_NOT_READY);
  CHECK_FALSE(called.load());
  hold.open();
  REQUIRE_OK(driver(cuEventSynchronize)(end));
  REQUIRE_OK(driver(cuStreamSynchronize)(two));
  CHECK(called.load());
  REQUIRE_OK(driver(cuEventElapsedTime)(&milliseconds, begin, end));
  CHECK(milliseconds >= 9.0f);
  REQUIRE_OK(driver(cuEventRecord)(untimed, one));
  REQUIRE_OK(driver(cuEventSynchronize)(untimed));
  CHECK_CODE(driver(cuEventElapsedTime)(&milliseconds, begin, untimed), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(driver(cuEventDestroy_v2)(end));
  CHECK_CODE(driver(cuEventQuery)(end), CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a context-wide event covers all streams and holds back all later work") {
  test_context context;
  const CUstream one = make_stream(), two = make_stream();
  const CUevent all = make_event(), later = make_event();
  gate hold(one);
  REQUIRE_OK(driver(cuCtxRecordEvent)(context.handle, all));
  CHECK_CODE(driver(cuEventQuery)(all), CUDA_ERROR_NOT_READY);
  REQUIRE_OK(driver(cuCtxWaitEvent)(context.handle, all));
  REQUIRE_OK(driver(cuEventRecord)(later, two));
  CHECK_CODE(driver(cuEventQuery)(later), CUDA_ERROR_NOT_READY);
  hold.open();
  REQUIRE_OK(driver(cuEventSynchronize)(later));
  CHECK_CODE(driver(cuEventQuery)(all), CUDA_SUCCESS);
}

TEST_CASE("host functions run in stream order, may block, and may not call CUDA") {
  test_context context;
  const CUstream one = make_stream(), two = make_stream();
  struct state {
    std::atomic<int> order{0};
    std::atomic<bool> go{false};
    std::atomic<int> code{-1};
  } shared;
  // The function of the first stream waits for that of the second.
  REQUIRE_OK(driver(cuLaunchHostFunc)(
      one,
      [](void* argument) {
        auto& all = *static_cast<state*>(argument);
        while (!all.go) std::this_thread::yield();
        CUdeviceptr memory = 0;
        all.code = driver(cuMemAlloc_v2)(&memory, 16);
        all.order = 1;
      },
      &shared));
  REQUIRE_OK(driver(cuStreamAddCallback)(
      one,
      [](CUstream, CUresult status, void* argument) {
        auto& all = *static_cast<state*>(argument);
        if (status == CUDA_SUCCESS && all.order == 1) all.order = 2;
      },
      &shared, 0));
  REQUIRE_OK(driver(cuLaunchHostFunc)(
      two, [](void* argument) { static_cast<state*>(argument)->go = true; }, &shared));
  REQUIRE_OK(driver(cuCtxSynchronize)());
  CHECK(shared.order == 2);
  CHECK(shared.code == CUDA_ERROR_NOT_PERMITTED);
  CHECK_CODE(driver(cuLaunchHostFunc)(one, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("waits for values understand all conditions, and writes reach them") {
  test_context context;
  const CUstream one = make_stream(), two = make_stream();
  const CUdeviceptr words = device_array<unsigned>({0, 0, 0, 0});
  REQUIRE_OK(driver(cuStreamWaitValue32_v2)(one, words, 5, CU_STREAM_WAIT_VALUE_GEQ));
  REQUIRE_OK(driver(cuStreamWaitValue32_v2)(one, words, 4, CU_STREAM_WAIT_VALUE_AND));
  REQUIRE_OK(driver(cuStreamWaitValue32_v2)(one, words, 0, CU_STREAM_WAIT_VALUE_NOR));
  REQUIRE_OK(driver(cuStreamWaitValue64_v2)(one, words + 8, 1ull << 40, CU_STREAM_WAIT_VALUE_EQ));
  CHECK_CODE(driver(cuStreamQuery)(one), CUDA_ERROR_NOT_READY);
  REQUIRE_OK(driver(cuStreamWriteValue32_v2)(two, words, 6, 0));
  CUstreamBatchMemOpParams batch[2] = {};
  batch[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  batch[0].writeValue.address = words + 8;
  batch[0].writeValue.value64 = 1ull << 40;
  batch[1].operation = CU_STREAM_MEM_OP_BARRIER;
  REQUIRE_OK(driver(cuStreamBatchMemOp_v2)(two, 2, batch, 0));
  REQUIRE_OK(driver(cuStreamSynchronize)(one));
  CHECK_CODE(driver(cuStreamWaitValue32_v2)(one, words + 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuStreamWaitValue32_v2)(one, 8, 0, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuStreamBatchMemOp_v2)(one, 0, batch, 0), CUDA_ERROR_INVALID_VALUE);
  batch[0].operation = static_cast<CUstreamBatchMemOpType>(77);
  CHECK_CODE(driver(cuStreamBatchMemOp_v2)(one, 1, batch, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("stream properties are those it was made with") {
  test_context context;
  CUstream stream = nullptr;
  REQUIRE_OK(driver(cuStreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, -100));
  int priority = 0;
  unsigned flags = 0;
  CUcontext owner = nullptr;
  CUdevice device = -1;
  unsigned long long id = 0, legacy_id = 0;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  REQUIRE_OK(driver(cuStreamGetPriority)(stream, &priority));
  CHECK(priority == -5);
  REQUIRE_OK(driver(cuStreamGetFlags)(stream, &flags));
  CHECK(flags == CU_STREAM_NON_BLOCKING);
  REQUIRE_OK(driver(cuStreamGetCtx)(stream, &owner));
  CHECK(owner == context.handle);
  REQUIRE_OK(driver(cuStreamGetDevice)(stream, &device));
  CHECK(device == 0);
  REQUIRE_OK(driver(cuStreamGetId)(stream, &id));
  REQUIRE_OK(driver(cuStreamGetId)(nullptr, &legacy_id));
  CHECK(id != legacy_id);
  REQUIRE_OK(driver(cuStreamIsCapturing)(stream, &capture));
  CHECK(capture == CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK_CODE(driver(cuStreamCreate)(&stream, 8), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuStreamCreate)(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("attributes of streams are kept and copied") {
  test_context context;
  const CUstream one = make_stream(), two = make_stream();
  CUstreamAttrValue value{};
  REQUIRE_OK(driver(cuStreamGetAttribute)(one, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  CHECK(value.syncPolicy == CU_SYNC_POLICY_AUTO);
  value.syncPolicy = CU_SYNC_POLICY_YIELD;
  REQUIRE_OK(driver(cuStreamSetAttribute)(one, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  REQUIRE_OK(driver(cuStreamCopyAttributes)(two, one));
  value = {};
  REQUIRE_OK(driver(cuStreamGetAttribute)(two, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  CHECK(value.syncPolicy == CU_SYNC_POLICY_YIELD);
  CHECK_CODE(driver(cuStreamGetAttribute)(one, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
             CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("wrong and stale stream and event handles give 400") {
  test_context context;
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  REQUIRE_OK(driver(cuStreamDestroy_v2)(stream));
  for (CUstream bad :
       {stream, stream_handle(3), stream_handle(~0ull), reinterpret_cast<CUstream>(event)}) {
    INFO(bad);
    CHECK_CODE(driver(cuStreamSynchronize)(bad), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE(driver(cuStreamQuery)(bad), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE(driver(cuStreamDestroy_v2)(bad), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE(driver(cuEventRecord)(event, bad), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE(driver(cuMemsetD8Async)(8, 0, 1, bad), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE(
        driver(cuEventQuery)(reinterpret_cast<CUevent>(reinterpret_cast<std::uintptr_t>(bad) ^ 8)),
        CUDA_ERROR_INVALID_HANDLE);
  }
  test_context other;
  CHECK_CODE(driver(cuEventRecord)(event, nullptr), CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("work of a destroyed stream still ends") {
  test_context context;
  const CUstream stream = make_stream();
  const CUdeviceptr memory = device_array<int>({1});
  gate hold(stream);
  REQUIRE_OK(driver(cuMemsetD32Async)(memory, 9, 1, stream));
  REQUIRE_OK(driver(cuStreamDestroy_v2)(stream));
  hold.open();
  REQUIRE_OK(driver(cuCtxSynchronize)());
  CHECK(host_copy<int>(memory, 1)[0] == 9);
}

TEST_CASE("many threads use streams of one context at once") {
  test_context context;
  const CUdeviceptr counters = device_array<int>(std::vector<int>(8));
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (unsigned number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      bool fine = driver(cuCtxSetCurrent)(context.handle) == CUDA_SUCCESS;
      CUstream stream = nullptr;
      CUevent event = nullptr;
      fine = fine && driver(cuStreamCreate)(&stream, number % 2) == CUDA_SUCCESS;
      fine = fine && driver(cuEventCreate)(&event, 0) == CUDA_SUCCESS;
      for (unsigned round = 1; fine && round <= 200; ++round) {
        CUdeviceptr scratch = 0;
        unsigned seen = 0;
        fine = driver(cuMemAlloc_v2)(&scratch, 64) == CUDA_SUCCESS &&
               driver(cuMemsetD32Async)(scratch, round, 16, stream) == CUDA_SUCCESS &&
               driver(cuMemcpyDtoDAsync_v2)(counters + 4 * number, scratch, 4, stream) ==
                   CUDA_SUCCESS &&
               driver(cuEventRecord)(event, stream) == CUDA_SUCCESS &&
               driver(cuStreamWaitEvent)(CU_STREAM_PER_THREAD, event, 0) == CUDA_SUCCESS &&
               driver(cuMemcpyDtoHAsync_v2)(&seen, counters + 4 * number, 4,
                                            CU_STREAM_PER_THREAD) == CUDA_SUCCESS &&
               seen == round && driver(cuMemFree_v2)(scratch) == CUDA_SUCCESS;
      }
      fine = fine && driver(cuStreamDestroy_v2)(stream) == CUDA_SUCCESS;
      if (!fine) ++failures;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
}
