// SPDX-License-Identifier: Apache-2.0
// Waiting for what is known to be idle costs no round trip, and is never believed of a stream that was given work, by this
// thread or another one.
#include <thread>

#include "test/loopback/programs/common.hpp"

using clock_type = std::chrono::steady_clock;

template <class Call>
static double best_us(Call call, int count) {
  double best = 1e9;
  for (int i = 0; i < count; ++i) {
    const auto begin = clock_type::now();
    call();
    best = std::min(best, std::chrono::duration<double, std::micro>(clock_type::now() - begin).count());
  }
  return best;
}

int main() {
  gpu g;
  CUdeviceptr place;
  CUstream stream, other;
  CHECK(cuMemAlloc(&place, sizeof(int)));
  CHECK(cuStreamCreate(&stream, 0));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  const double travel = best_us([] {
    size_t available, total;
    CHECK(cuMemGetInfo(&available, &total));
  }, 300);
  const double wait_stream = best_us([&] { CHECK(cuStreamSynchronize(stream)); }, 300);
  const double wait_context = best_us([] { CHECK(cuCtxSynchronize()); }, 300);
  int seen = 0;
  CHECK(cuMemcpyDtoHAsync(&seen, place, sizeof seen, stream));
  const double wait_after_read = best_us([&] { CHECK(cuStreamSynchronize(stream)); }, 300);
  std::printf("best: a call that travels %.2f us; waits for the idle: stream %.2f, context %.2f, after a read %.2f us\n", travel,
              wait_stream, wait_context, wait_after_read);
  REQUIRE(wait_stream < travel / 2 && wait_context < travel / 2 && wait_after_read < travel / 2);

  // A long kernel in the stream, the context, by another thread: each wait lasts until its result is there.
  const unsigned rounds = g.rounds_for(std::chrono::milliseconds(200), place);
  const auto result = [&] {
    int value = 0;
    CHECK(cuMemcpyDtoH(&value, place, sizeof value));
    return static_cast<unsigned>(value);
  };
  const auto lasted = [&](auto&& wait) {
    CHECK(cuMemsetD32(place, 0, 1));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuCtxSynchronize());
    const auto begin = clock_type::now();
    wait();
    REQUIRE(clock_type::now() - begin >= std::chrono::milliseconds(50));
    REQUIRE(result() == rounds);
  };
  lasted([&] {
    g.launch_busy(place, rounds, stream);
    CHECK(cuStreamSynchronize(stream));
  });
  lasted([&] {
    g.launch_busy(place, rounds, other);
    CHECK(cuCtxSynchronize());
  });
  lasted([&] {
    std::thread([&] {
      CHECK(cuCtxSetCurrent(g.context));
      g.launch_busy(place, rounds, stream);
    }).join();
    CHECK(cuStreamSynchronize(stream));
  });
  lasted([&] {
    g.launch_busy(place, rounds, stream);
    CUresult r;
    while ((r = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    CHECK(r);
  });
  std::printf("PASSED\n");
  return 0;
}
