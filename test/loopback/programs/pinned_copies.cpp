// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies of pinned memory, which return at once: their place in the order, what they wait for, what waits for
// them, and that every byte is where it belongs. Prints the same lines natively.
//
//   pinned_copies [ROUNDS]
#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include <condition_variable>

#include "common.hpp"

namespace {

using namespace std::chrono_literals;

constexpr std::size_t mib = 1u << 20;

CUstream new_stream() {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

int* pinned(std::size_t bytes) {
  void* memory = nullptr;
  CHECK(cuMemHostAlloc(&memory, bytes, 0));
  std::memset(memory, 0, bytes);
  return static_cast<int*>(memory);
}

CUdeviceptr device(std::size_t bytes) {
  CUdeviceptr memory = 0;
  CHECK(cuMemAlloc(&memory, bytes));
  CHECK(cuMemsetD8(memory, 0, bytes));
  CHECK(cuCtxSynchronize());
  return memory;
}

bool all_are(const int* data, std::size_t count, int value) {
  for (std::size_t i = 0; i < count; ++i)
    if (data[i] != value) {
      std::printf("element %zu is %d, not %d\n", i, data[i], value);
      return false;
    }
  return true;
}

struct gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  void release() {
    std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};
void CUDA_CB hold(void* data) {
  auto* g = static_cast<gate*>(data);
  std::unique_lock lock(g->mutex);
  g->changed.wait(lock, [g] { return g->open; });
}

// The source is overwritten right behind the copy.
void overwritten_source(const gpu& g, CUstream stream, std::size_t bytes) {
  const auto count = bytes / sizeof(int);
  const CUdeviceptr memory = device(bytes);
  int* host = pinned(bytes);
  for (int round = 1; round <= 5; ++round) {
    CHECK(cuMemsetD32Async(memory, static_cast<unsigned>(round), count, stream));
    CHECK(cuMemcpyDtoHAsync(host, memory, bytes, stream));
    CHECK(cuMemsetD32Async(memory, 99, count, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(all_are(host, count, round));
  }
  g.launch_fill(memory, 7, static_cast<unsigned>(count), stream);
  CHECK(cuMemcpyDtoHAsync(host, memory, bytes, stream));
  g.launch_fill(memory, 8, static_cast<unsigned>(count), stream);
  CHECK(cuStreamSynchronize(stream));
  REQUIRE(all_are(host, count, 7));
  CHECK(cuMemFreeHost(host));
  CHECK(cuMemFree(memory));
  std::printf("%zu bytes are copied before they are overwritten\n", bytes);
}

// A copy does not make the thread wait for what is before it in the stream.
void returns_at_once(CUstream stream, std::size_t bytes) {
  const auto count = bytes / sizeof(int);
  const CUdeviceptr memory = device(bytes);
  int *out = pinned(bytes), *in = pinned(bytes);
  std::fill_n(in, count, 5);
  gate l;
  CHECK(cuLaunchHostFunc(stream, hold, &l));
  CHECK(cuMemcpyHtoDAsync(memory, in, bytes, stream));
  CHECK(cuMemcpyDtoHAsync(out, memory, bytes, stream));
  EXPECT_RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  REQUIRE(all_are(out, count, 0));
  l.release();
  CHECK(cuStreamSynchronize(stream));
  REQUIRE(all_are(out, count, 5));
  CHECK(cuMemFreeHost(out));
  CHECK(cuMemFreeHost(in));
  CHECK(cuMemFree(memory));
  std::printf("%zu bytes: both directions return at once\n", bytes);
}

struct filling {
  int* place = nullptr;
  std::size_t count = 0;
  int value = 0;
};
void CUDA_CB fill_memory(void* data) {
  const auto* f = static_cast<filling*>(data);
  std::this_thread::sleep_for(5ms);
  std::fill_n(f->place, f->count, f->value);
}

// The memory is what a host function before the copy makes of it.
void behind_a_host_function(CUstream stream, std::size_t bytes) {
  const auto count = bytes / sizeof(int);
  const CUdeviceptr memory = device(bytes);
  int *in = pinned(bytes), *out = pinned(bytes);
  std::vector<filling> fillings(4);
  for (int round = 0; round < 4; ++round) {
    fillings[static_cast<std::size_t>(round)] = {in, count, 10 + round};
    CHECK(cuLaunchHostFunc(stream, fill_memory, &fillings[static_cast<std::size_t>(round)]));
    CHECK(cuMemcpyHtoDAsync(memory, in, bytes, stream));
  }
  CHECK(cuMemcpyDtoHAsync(out, memory, bytes, stream));
  CHECK(cuStreamSynchronize(stream));
  REQUIRE(all_are(out, count, 13));
  CHECK(cuMemFreeHost(in));
  CHECK(cuMemFreeHost(out));
  CHECK(cuMemFree(memory));
  std::printf("%zu bytes are read after the host function that fills them\n", bytes);
}

// Down and up again without waiting in between.
void there_and_back(CUstream stream, std::size_t bytes) {
  const auto count = bytes / sizeof(int);
  const CUdeviceptr a = device(bytes), b = device(bytes);
  int *middle = pinned(bytes), *out = pinned(bytes);
  for (int round = 1; round <= 3; ++round) {
    CHECK(cuMemsetD32Async(a, static_cast<unsigned>(100 + round), count, stream));
    CHECK(cuMemcpyDtoHAsync(middle, a, bytes, stream));
    CHECK(cuMemcpyHtoDAsync(b, middle, bytes, stream));
    CHECK(cuMemcpyDtoHAsync(out, b, bytes, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(all_are(out, count, 100 + round));
  }
  CHECK(cuMemFreeHost(middle));
  CHECK(cuMemFreeHost(out));
  CHECK(cuMemFree(a));
  CHECK(cuMemFree(b));
  std::printf("%zu bytes go to the host and back in one stream\n", bytes);
}

// A host function sees what was copied before it.
struct looking {
  const int* place = nullptr;
  std::size_t count = 0;
  int wanted = 0;
  std::atomic<bool> right{false};
};
void CUDA_CB look(void* data) {
  auto* l = static_cast<looking*>(data);
  l->right = all_are(l->place, l->count, l->wanted);
}

void seen_by_a_host_function(CUstream stream, std::size_t bytes) {
  const auto count = bytes / sizeof(int);
  const CUdeviceptr memory = device(bytes);
  int* host = pinned(bytes);
  for (int round = 1; round <= 20; ++round) {
    looking l;
    l.place = host;
    l.count = count;
    l.wanted = round;
    CHECK(cuMemsetD32Async(memory, static_cast<unsigned>(round), count, stream));
    CHECK(cuMemcpyDtoHAsync(host, memory, bytes, stream));
    CHECK(cuLaunchHostFunc(stream, look, &l));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(l.right);
  }
  CHECK(cuMemFreeHost(host));
  CHECK(cuMemFree(memory));
  std::printf("%zu bytes are there when the host function behind the copy runs\n", bytes);
}

// Queries: complete means that the bytes are there, in this stream and in one that waited for it.
void seen_by_queries(CUstream a, CUstream b, std::size_t bytes) {
  const auto count = bytes / sizeof(int);
  const CUdeviceptr memory = device(bytes);
  int* host = pinned(bytes);
  CUevent copied = nullptr, joined = nullptr;
  CHECK(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
  for (int round = 1; round <= 20; ++round) {
    CHECK(cuMemsetD32Async(memory, static_cast<unsigned>(round), count, a));
    CHECK(cuMemcpyDtoHAsync(host, memory, bytes, a));
    CHECK(cuEventRecord(copied, a));
    CHECK(cuStreamWaitEvent(b, copied, 0));
    CHECK(cuEventRecord(joined, b));
    if (round % 3 == 0)
      while (cuEventQuery(joined) == CUDA_ERROR_NOT_READY) continue;
    else if (round % 3 == 1)
      while (cuStreamQuery(a) == CUDA_ERROR_NOT_READY) continue;
    else
      CHECK(cuEventSynchronize(joined));
    REQUIRE(all_are(host, count, round));
  }
  CHECK(cuEventDestroy(copied));
  CHECK(cuEventDestroy(joined));
  CHECK(cuMemFreeHost(host));
  CHECK(cuMemFree(memory));
  std::printf("%zu bytes are there when a query says so\n", bytes);
}

// Memory is given back while copies of it are under way.
void freed_while_pending(const gpu& g, CUstream stream, std::size_t bytes) {
  const CUdeviceptr memory = device(bytes), place = device(64);
  for (int round = 0; round < 3; ++round) {
    int *out = pinned(bytes), *in = pinned(bytes);
    g.launch_busy(place, 20'000, stream);
    CHECK(cuMemcpyHtoDAsync(memory, in, bytes, stream));
    CHECK(cuMemcpyDtoHAsync(out, memory, bytes, stream));
    CHECK(cuMemFreeHost(out));
    CHECK(cuMemFreeHost(in));
    std::vector<int> own(bytes / sizeof(int) + 1024, 3);
    CHECK(cuMemHostRegister(own.data() + 5, bytes, 0));
    CHECK(cuMemcpyDtoHAsync(own.data() + 5, memory, bytes, stream));
    CHECK(cuMemHostUnregister(own.data() + 5));
    REQUIRE(own[4] == 3 && own[5 + bytes / sizeof(int)] == 3 && own[5] == 0);
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemFree(memory));
  CHECK(cuMemFree(place));
  std::printf("%zu bytes: memory is given back while it is being copied\n", bytes);
}

// Random sizes and places, into and out of one range, against what a plain program would do.
void at_random(CUstream a, CUstream b, int rounds, unsigned seed) {
  constexpr std::size_t bytes = 3 * mib;
  std::mt19937 random(seed);
  const CUdeviceptr memory = device(bytes);
  auto* in = reinterpret_cast<std::byte*>(pinned(bytes));
  auto* out = reinterpret_cast<std::byte*>(pinned(bytes));
  std::vector<std::byte> model(bytes);
  CUevent done = nullptr;
  CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
  for (int round = 0; round < rounds; ++round) {
    const auto size_class = random() % 4;
    const std::size_t most = size_class == 0 ? 64 : size_class == 1 ? 64u << 10 : size_class == 2 ? 300u << 10 : bytes;
    const std::size_t length = 1 + random() % most;
    const std::size_t at = random() % (bytes - length + 1);
    for (std::size_t i = 0; i < length; i += 1 + length / 64) in[at + i] = static_cast<std::byte>(random());
    std::memcpy(model.data() + at, in + at, length);
    CHECK(cuMemcpyHtoDAsync(memory + at, in + at, length, a));
    CHECK(cuEventRecord(done, a));
    CHECK(cuStreamWaitEvent(b, done, 0));
    const std::size_t read_length = 1 + random() % most;
    const std::size_t from = random() % (bytes - read_length + 1);
    CHECK(cuMemcpyDtoHAsync(out + from, memory + from, read_length, b));
    CHECK(cuStreamSynchronize(b));
    REQUIRE(std::memcmp(out + from, model.data() + from, read_length) == 0);
  }
  CHECK(cuMemcpyDtoHAsync(out, memory, bytes, b));
  CHECK(cuStreamSynchronize(b));
  REQUIRE(std::memcmp(out, model.data(), bytes) == 0);
  CHECK(cuEventDestroy(done));
  CHECK(cuMemFreeHost(in));
  CHECK(cuMemFreeHost(out));
  CHECK(cuMemFree(memory));
}

// Many copies into the same place without waiting: the last one stays.
void same_place(CUstream stream, std::size_t bytes) {
  const auto count = bytes / sizeof(int);
  const CUdeviceptr memory = device(bytes);
  int* host = pinned(bytes);
  for (int round = 1; round <= 30; ++round) {
    CHECK(cuMemsetD32Async(memory, static_cast<unsigned>(round), count, stream));
    CHECK(cuMemcpyDtoHAsync(host, memory, bytes, stream));
  }
  CHECK(cuStreamSynchronize(stream));
  REQUIRE(all_are(host, count, 30));
  CHECK(cuMemFreeHost(host));
  CHECK(cuMemFree(memory));
  std::printf("%zu bytes: the last of many copies into one place stays\n", bytes);
}

// A large copy from pageable memory behind an upload that the stream still waits for.
void pageable_behind_an_upload(CUstream stream) {
  constexpr std::size_t bytes = 24 * mib;
  const CUdeviceptr memory = device(2 * bytes);
  int* in = pinned(bytes);
  std::vector<int> pageable(bytes / sizeof(int), 4);
  std::fill_n(in, bytes / sizeof(int), 6);
  gate l;
  CHECK(cuLaunchHostFunc(stream, hold, &l));
  CHECK(cuMemcpyHtoDAsync(memory, in, bytes, stream));
  std::thread releaser([&l] {
    std::this_thread::sleep_for(20ms);
    l.release();
  });
  CHECK(cuMemcpyHtoDAsync(memory + bytes, pageable.data(), bytes, stream));
  releaser.join();
  std::vector<int> out(2 * bytes / sizeof(int));
  CHECK(cuMemcpyDtoHAsync(out.data(), memory, 2 * bytes, stream));
  CHECK(cuStreamSynchronize(stream));
  REQUIRE(all_are(out.data(), bytes / sizeof(int), 6));
  REQUIRE(all_are(out.data() + bytes / sizeof(int), bytes / sizeof(int), 4));
  CHECK(cuMemFreeHost(in));
  CHECK(cuMemFree(memory));
  std::printf("pageable and pinned copies do not stand in each other's way\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::stoi(argv[1]) : 300;
  gpu g;
  CUstream a = new_stream(), b = new_stream();
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{64} << 10, std::size_t{256} << 10, 5 * mib}) {
    overwritten_source(g, a, bytes);
    returns_at_once(a, bytes);
    behind_a_host_function(a, bytes);
    there_and_back(a, bytes);
    seen_by_a_host_function(a, bytes);
    seen_by_queries(a, b, bytes);
    freed_while_pending(g, a, bytes);
    same_place(a, bytes);
  }
  pageable_behind_an_upload(a);
  at_random(a, b, rounds, 1);
  std::vector<std::thread> threads;
  CUcontext context = g.context;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      CHECK(cuCtxSetCurrent(context));
      CUstream first = new_stream(), second = new_stream();
      at_random(first, second, rounds / 3, 10 + t);
      CHECK(cuStreamDestroy(first));
      CHECK(cuStreamDestroy(second));
    });
  }
  for (auto& t : threads) t.join();
  std::printf("%d random copies of one thread and %d of each of three are right\n", rounds, rounds / 3);
  std::printf("PASSED\n");
  return 0;
}
