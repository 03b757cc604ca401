// SPDX-License-Identifier: Apache-2.0
// Libraries may be loaded by a thread without a context, even before there is one anywhere; their kernels run all the same.
// Runs natively as well.
#include <thread>

#include "test/loopback/programs/common.hpp"

static void launch_from(CUlibrary library, CUdeviceptr place, int value) {
  CUkernel kernel;
  CHECK(cuLibraryGetKernel(&kernel, library, "store"));
  void* parameters[] = {&place, &value};
  CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  int seen = 0;
  CHECK(cuMemcpyDtoH(&seen, place, sizeof seen));
  REQUIRE(seen == value);
}

static CUlibrary loaded() {
  CUlibrary library;
  CHECK(cuLibraryLoadData(&library, kernels_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  return library;
}

int main() {
  CHECK(cuInit(0));
  const CUlibrary early = loaded();
  gpu g;
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, 64));
  launch_from(early, place, 11);
  std::printf("loaded before there was a context\n");
  std::thread([&] {
    const CUlibrary here = loaded();
    CHECK(cuCtxSetCurrent(g.context));
    launch_from(here, place, 22);
  }).join();
  std::printf("loaded by a thread without one\nPASSED\n");
}
