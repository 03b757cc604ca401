// SPDX-License-Identifier: Apache-2.0
// Holds a session open after "ready": idle (the default), "busy" inside a long kernel, or "steady" working and checking its
// results. Ends in order when standard input does; the tests also kill it.
#include <atomic>
#include <cstring>
#include <thread>
#include <unistd.h>

#include "test/loopback/programs/common.hpp"

static void until_input_ends() {
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
}

static bool input_ended() {
  static std::atomic<bool> ended{false};
  static const bool watched = [] {
    std::thread([] {
      until_input_ends();
      ended = true;
    }).detach();
    return true;
  }();
  return watched && ended;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "idle";
  gpu g;
  const unsigned count = 4'096;
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, count * sizeof(int)));
  std::printf("ready\n");
  std::fflush(stdout);
  if (std::strcmp(how, "busy") == 0) {
    for (int i = 0; i < 64; ++i) g.launch_busy(place, 0x7fffffff);
    CHECK(cuCtxSynchronize());
  } else if (std::strcmp(how, "steady") == 0) {
    std::vector<int> values(count);
    int round = 0;
    for (; !input_ended(); ++round) {
      g.launch_fill(place, round, count);
      CHECK(cuMemcpyDtoH(values.data(), place, count * sizeof(int)));
      for (int value : values) REQUIRE(value == round);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::printf("%d rounds\n", round);
    REQUIRE(round > 0);
  } else {
    until_input_ends();
  }
  std::printf("PASSED\n");
}
