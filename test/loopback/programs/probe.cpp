// SPDX-License-Identifier: Apache-2.0
// The smallest client: initialises, moves a value there and back. Exit status 0 when all is well, 3 when cuInit failed
// (its error is printed, and cuInit is tried a second time to see that the first failure left nothing behind).
#include "test/loopback/programs/common.hpp"

int main() {
  if (CUresult result = cuInit(0); result != CUDA_SUCCESS) {
    std::printf("cuInit: %s (%d)\n", name_of(result), static_cast<int>(result));
    int count = -1;
    EXPECT_RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    return 3;
  }
  gpu g;
  CUdeviceptr place;
  int value = 0;
  CHECK(cuMemAlloc(&place, sizeof(value)));
  g.launch_store(place, 4711);
  CHECK(cuMemcpyDtoH(&value, place, sizeof(value)));
  REQUIRE(value == 4711);
  CHECK(cuMemFree(place));
  std::printf("PASSED\n");
}
