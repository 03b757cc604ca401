// SPDX-License-Identifier: Apache-2.0
// CUDA orders calls of different host threads by what the program itself synchronises. Thread A launches and signals, thread
// B waits for the signal, synchronises and reads: it must never see an older value. Argument: rounds.
#include <atomic>
#include <thread>

#include "test/loopback/programs/common.hpp"

static std::atomic<int> launched{0}, seen{0};

static void wait_for(const std::atomic<int>& number, int value) {
  while (number.load() < value) std::this_thread::yield();
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? static_cast<int>(std::strtol(argv[1], nullptr, 10)) : 10'000;
  gpu g;
  CUdeviceptr place;
  CUstream launching, reading;
  CHECK(cuMemAlloc(&place, sizeof(int)));
  CHECK(cuStreamCreate(&launching, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&reading, CU_STREAM_NON_BLOCKING));

  std::thread launcher([&] {
    CHECK(cuCtxSetCurrent(g.context));
    for (int round = 1; round <= rounds; ++round) {
      g.launch_store(place, round, launching);
      launched = round;
      wait_for(seen, round);
    }
  });

  int stale = 0;
  for (int round = 1; round <= rounds; ++round) {
    wait_for(launched, round);
    // By turns: the stream that was launched on, then a read on another stream; the whole context; the stream's own order.
    int value = -1;
    if (round % 3 == 0) {
      CHECK(cuStreamSynchronize(launching));
      CHECK(cuMemcpyDtoHAsync(&value, place, sizeof(value), reading));
      CHECK(cuStreamSynchronize(reading));
    } else if (round % 3 == 1) {
      CHECK(cuCtxSynchronize());
      CHECK(cuMemcpyDtoH(&value, place, sizeof(value)));
    } else {
      CHECK(cuMemcpyDtoHAsync(&value, place, sizeof(value), launching));
      CHECK(cuStreamSynchronize(launching));
    }
    stale += value != round;
    seen = round;
  }
  launcher.join();
  std::printf("%d rounds, %d stale\n", rounds, stale);
  REQUIRE(stale == 0);
  std::printf("PASSED\n");
}
