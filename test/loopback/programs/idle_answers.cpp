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

  // A long kernel in the stream, in the context, by another thread: when the wait returns, the server calls it complete.
  const unsigned rounds = g.rounds_for(std::chrono::milliseconds(200), place);
  CUevent after;
  CHECK(cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
  const auto ends_after = [&](CUstream in, bool elsewhere, auto&& wait) {
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamSynchronize(other));
    CHECK(cuCtxSynchronize());
    const auto work = [&] {
      CHECK(cuCtxSetCurrent(g.context));
      g.launch_busy(place, rounds, in);
      CHECK(cuEventRecord(after, in));
    };
    if (elsewhere) std::thread(work).join();
    else work();
    wait();
    CHECK(cuEventQuery(after));
  };
  ends_after(stream, false, [&] { CHECK(cuStreamSynchronize(stream)); });
  ends_after(other, false, [] { CHECK(cuCtxSynchronize()); });
  ends_after(stream, true, [&] { CHECK(cuStreamSynchronize(stream)); });
  ends_after(other, true, [] { CHECK(cuCtxSynchronize()); });
  ends_after(stream, false, [&] {
    CUresult r;
    while ((r = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    CHECK(r);
  });
  std::printf("PASSED\n");
  return 0;
}
