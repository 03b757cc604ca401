// SPDX-License-Identifier: Apache-2.0
// fork() around cuInit: a child of an initialised parent is told so by every call and its exit disturbs nobody; a child
// that forked before starts anew.
#include <sys/wait.h>
#include <unistd.h>

#include "test/loopback/programs/common.hpp"

static int status_of(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int child_of_initialised_parent(const gpu& g, CUdeviceptr place) {
  int count = 0, value = 0;
  size_t available, total;
  CUcontext context;
  CUdeviceptr other;
  EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
  EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&context));
  EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemGetInfo(&available, &total));
  EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc(&other, 64));
  EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemcpyDtoH(&value, place, sizeof(value)));
  EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cuCtxSynchronize());
  EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cuInit(0));
  void* parameters[] = {&place, &value};
  EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cuLaunchKernel(g.store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  return 0;
}

int main() {
  // Before anything: parent and child each get a session.
  pid_t early = fork();
  if (early == 0) {
    gpu own;
    CHECK(cuCtxSynchronize());
    std::exit(0);
  }
  gpu g;
  REQUIRE(status_of(early) == 0);

  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, sizeof(int)));
  for (int round = 0; round < 8; ++round) {
    g.launch_store(place, round);  // posted, so that something is under way at the moment of the fork
    std::fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      int code = child_of_initialised_parent(g, place);
      if (round % 2 == 0) std::exit(code);  // with destructors and atexit handlers
      std::_Exit(code);
    }
    g.launch_store(place, 100 + round);
    int value = 0;
    CHECK(cuMemcpyDtoH(&value, place, sizeof(value)));
    REQUIRE(value == 100 + round);
    REQUIRE(status_of(child) == 0);
    g.launch_store(place, 200 + round);
    CHECK(cuMemcpyDtoH(&value, place, sizeof(value)));
    REQUIRE(value == 200 + round);
  }
  std::printf("PASSED\n");
}
