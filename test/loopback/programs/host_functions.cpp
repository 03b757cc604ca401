// SPDX-License-Identifier: Apache-2.0
// Host functions and stream callbacks: their order, what they hold back, what waits for them, what they may not do, and what
// becomes of them after an error. Prints the same lines natively.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "common.hpp"

namespace {

using namespace std::chrono_literals;

struct latch {
  std::mutex mutex;
  std::condition_variable changed;
  bool entered = false, released = false;

  void enter_and_wait() {
    std::unique_lock lock(mutex);
    entered = true;
    changed.notify_all();
    changed.wait(lock, [this] { return released; });
  }
  void wait_entered() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return entered; });
  }
  void release() {
    std::lock_guard lock(mutex);
    released = true;
    changed.notify_all();
  }
};

void CUDA_CB hold(void* data) {
  static_cast<latch*>(data)->enter_and_wait();
}

struct numbered {
  std::vector<int>* log = nullptr;
  int number = 0;
};
std::mutex log_mutex;
void CUDA_CB append(void* data) {
  const auto* n = static_cast<numbered*>(data);
  std::lock_guard lock(log_mutex);
  n->log->push_back(n->number);
}

CUstream new_stream() {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

void arguments(CUstream stream) {
  int none = 0;
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(stream, nullptr, &none));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(stream, nullptr, &none, 0));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE,
                cuStreamAddCallback(stream, [](CUstream, CUresult, void*) {}, &none, 1));
  std::printf("arguments are checked\n");
}

void run_in_order(CUstream a, CUstream b) {
  constexpr int count = 1000;
  std::vector<int> log_a, log_b;
  std::vector<numbered> in_a(count), in_b(count);
  for (int i = 0; i < count; ++i) {
    in_a[static_cast<std::size_t>(i)] = {&log_a, i};
    in_b[static_cast<std::size_t>(i)] = {&log_b, i};
    CHECK(cuLaunchHostFunc(a, append, &in_a[static_cast<std::size_t>(i)]));
    CHECK(cuLaunchHostFunc(b, append, &in_b[static_cast<std::size_t>(i)]));
  }
  CHECK(cuStreamSynchronize(a));
  CHECK(cuStreamSynchronize(b));
  std::lock_guard lock(log_mutex);
  REQUIRE(log_a.size() == count && log_b.size() == count);
  for (int i = 0; i < count; ++i) {
    REQUIRE(log_a[static_cast<std::size_t>(i)] == i);
    REQUIRE(log_b[static_cast<std::size_t>(i)] == i);
  }
  std::printf("%d functions in each of two streams ran in order\n", count);
}

void holds_what_follows(const gpu& g, CUstream a, CUstream b, CUdeviceptr place) {
  latch l;
  CUevent before = nullptr, after = nullptr;
  CHECK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
  g.launch_store(place, 1, a);
  CHECK(cuEventRecord(before, a));
  CHECK(cuLaunchHostFunc(a, hold, &l));
  g.launch_store(place, 2, a);
  CHECK(cuEventRecord(after, a));
  l.wait_entered();
  EXPECT_RESULT(CUDA_SUCCESS, cuEventQuery(before));
  EXPECT_RESULT(CUDA_ERROR_NOT_READY, cuEventQuery(after));
  EXPECT_RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
  int value = 0;
  CHECK(cuMemcpyDtoHAsync(&value, place, sizeof value, b));
  CHECK(cuStreamSynchronize(b));
  REQUIRE(value == 1);
  std::atomic<bool> released{false};
  std::thread releaser([&] {
    std::this_thread::sleep_for(30ms);
    released = true;
    l.release();
  });
  CHECK(cuStreamSynchronize(a));
  REQUIRE(released);
  releaser.join();
  EXPECT_RESULT(CUDA_SUCCESS, cuEventQuery(after));
  CHECK(cuMemcpyDtoHAsync(&value, place, sizeof value, b));
  CHECK(cuStreamSynchronize(b));
  REQUIRE(value == 2);
  CHECK(cuEventDestroy(before));
  CHECK(cuEventDestroy(after));
  std::printf("what follows waits for the function, queries and waits see it\n");
}

// A program whose thread waits for the function without being inside of any call.
void runs_without_a_call(CUstream a) {
  latch l;
  CHECK(cuLaunchHostFunc(a, hold, &l));
  l.wait_entered();
  l.release();
  CHECK(cuStreamSynchronize(a));
  std::printf("a function runs while nobody calls\n");
}

struct inside {
  CUdeviceptr place = 0;
  CUstream stream = nullptr;
  CUresult synchronise = CUDA_SUCCESS, allocate = CUDA_SUCCESS, copy = CUDA_SUCCESS, query = CUDA_SUCCESS;
};

void calls_are_not_permitted(CUstream a, CUdeviceptr place) {
  inside in{place, a};
  const auto body = [](void* data) {
    auto* i = static_cast<inside*>(data);
    int value = 0;
    CUdeviceptr fresh = 0;
    i->synchronise = cuStreamSynchronize(i->stream);
    i->allocate = cuMemAlloc(&fresh, 16);
    i->copy = cuMemcpyDtoH(&value, i->place, sizeof value);
    i->query = cuStreamQuery(i->stream);
  };
  CHECK(cuLaunchHostFunc(a, body, &in));
  CHECK(cuStreamSynchronize(a));
  std::printf("inside a function: %d %d %d %d\n", in.synchronise, in.allocate, in.copy, in.query);
  REQUIRE(in.synchronise == CUDA_ERROR_NOT_PERMITTED && in.allocate == CUDA_ERROR_NOT_PERMITTED);
}

struct seen {
  std::atomic<int> runs{0};
  CUstream stream = nullptr;
  CUresult result = CUDA_ERROR_UNKNOWN;
};
void CUDA_CB look(CUstream stream, CUresult result, void* data) {
  auto* s = static_cast<seen*>(data);
  s->stream = stream;
  s->result = result;
  s->runs.fetch_add(1);
}

void callbacks(CUstream a) {
  seen s, t;
  CHECK(cuStreamAddCallback(a, look, &s, 0));
  CHECK(cuStreamAddCallback(nullptr, look, &t, 0));
  CHECK(cuStreamSynchronize(a));
  CHECK(cuStreamSynchronize(nullptr));
  REQUIRE(s.runs == 1 && s.stream == a && s.result == CUDA_SUCCESS);
  REQUIRE(t.runs == 1 && t.stream == nullptr && t.result == CUDA_SUCCESS);
  std::printf("callbacks know their stream and the result\n");
}

void many_threads() {
  constexpr int threads = 4, rounds = 200;
  std::atomic<int> sum{0};
  std::vector<std::thread> all;
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, context] {
      CHECK(cuCtxSetCurrent(context));
      CUstream own = new_stream();
      for (int i = 0; i < rounds; ++i) {
        CHECK(cuLaunchHostFunc(own, [](void* p) { static_cast<std::atomic<int>*>(p)->fetch_add(1); }, &sum));
        if (i % 16 == 0) CHECK(cuStreamSynchronize(own));
      }
      CHECK(cuStreamSynchronize(own));
      CHECK(cuStreamDestroy(own));
    });
  }
  for (auto& t : all) t.join();
  REQUIRE(sum == threads * rounds);
  std::printf("%d functions of %d threads ran\n", threads * rounds, threads);
}

void destroyed_stream() {
  std::atomic<int> runs{0};
  CUstream own = new_stream();
  latch l;
  CHECK(cuLaunchHostFunc(own, hold, &l));
  CHECK(cuLaunchHostFunc(own, [](void* p) { static_cast<std::atomic<int>*>(p)->fetch_add(1); }, &runs));
  CHECK(cuStreamDestroy(own));
  l.release();
  CHECK(cuCtxSynchronize());
  for (int i = 0; i < 1000 && runs == 0; ++i) std::this_thread::sleep_for(1ms);
  REQUIRE(runs == 1);
  std::printf("a destroyed stream still runs its functions\n");
}

void after_an_error(const gpu& g, CUstream a) {
  latch l;
  std::atomic<int> runs{0};
  seen s;
  CHECK(cuLaunchHostFunc(a, hold, &l));
  g.launch_store(0x10, 1, a);  // faults
  CHECK(cuLaunchHostFunc(a, [](void* p) { static_cast<std::atomic<int>*>(p)->fetch_add(1); }, &runs));
  CHECK(cuStreamAddCallback(a, look, &s, 0));
  l.release();
  EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(a));
  for (int i = 0; i < 1000 && s.runs == 0; ++i) std::this_thread::sleep_for(1ms);
  std::printf("after an error: functions run %d, callbacks %d with %d\n", runs.load(), s.runs.load(), s.result);
  REQUIRE(runs == 0 && s.runs == 1 && s.result == CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuLaunchHostFunc(a, hold, &l));
}

}  // namespace

int main() {
  gpu g;
  CUdeviceptr place = 0;
  CHECK(cuMemAlloc(&place, 64));
  CUstream a = new_stream(), b = new_stream();
  arguments(a);
  run_in_order(a, b);
  holds_what_follows(g, a, b, place);
  runs_without_a_call(a);
  calls_are_not_permitted(a, place);
  callbacks(a);
  many_threads();
  destroyed_stream();
  after_an_error(g, a);
  std::printf("PASSED\n");
  return 0;
}
