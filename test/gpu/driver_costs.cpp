// SPDX-License-Identifier: Apache-2.0
// What driver calls cost natively, and a few behaviours that the daemon's design rests on. Prints one line a fact.
// argv[1]: an image with the kernels of return_codes_kernels.cu.
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace {

using steady = std::chrono::steady_clock;

double microseconds_since(steady::time_point t) {
  return std::chrono::duration<double, std::micro>(steady::now() - t).count();
}

template <class F>
void cost(const char* what, int rounds, F&& f) {
  std::vector<double> v;
  for (int i = 0; i < rounds; ++i) {
    const auto t = steady::now();
    f();
    v.push_back(microseconds_since(t));
  }
  std::sort(v.begin(), v.end());
  std::printf("%-60s best %9.2f  median %9.2f  worst %9.2f us\n", what, v.front(), v[v.size() / 2], v.back());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  std::vector<char> image((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  cuInit(0);
  CUcontext c = nullptr;
  cuDevicePrimaryCtxRetain(&c, 0);
  cuCtxSetCurrent(c);
  CUlibrary l = nullptr;
  cuLibraryLoadData(&l, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  CUkernel k = nullptr;
  cuLibraryGetKernel(&k, l, "add_one");
  CUfunction f = nullptr;
  CUfunctionLoadingState loaded{};
  size_t o = 0, b = 0;
  cuKernelGetParamInfo(k, 0, &o, &b);
  cuKernelGetFunction(&f, k);
  cuFuncIsLoaded(&loaded, f);
  std::printf("after param info and get function: loaded %d\n", loaded);
  int v = 0;
  cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, k, 0);
  cuFuncIsLoaded(&loaded, f);
  std::printf("after kernel attribute: loaded %d\n", loaded);

  CUstream s = nullptr;
  cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
  CUdeviceptr p = 0;
  int n = 64;
  cuMemAlloc(&p, 256 << 20);
  struct { CUdeviceptr p; int n; } packed{p, n};
  size_t bytes = 12;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  void* arguments[] = {&p, &n};
  const CUfunction as_function = reinterpret_cast<CUfunction>(k);
  std::printf("launch kernel handle with extra: %d\n",
              cuLaunchKernel(as_function, 1, 1, 1, 64, 1, 1, 0, s, nullptr, extra));
  cuStreamSynchronize(s);
  cost("launch, kernelParams", 500, [&] { cuLaunchKernel(as_function, 1, 1, 1, 64, 1, 1, 0, s, arguments, nullptr); });
  cuStreamSynchronize(s);
  cost("launch, extra", 500, [&] { cuLaunchKernel(as_function, 1, 1, 1, 64, 1, 1, 0, s, nullptr, extra); });
  cuStreamSynchronize(s);
  CUlaunchConfig config{1, 1, 1, 64, 1, 1, 0, s, nullptr, 0};
  cost("launchEx, extra", 500, [&] { cuLaunchKernelEx(&config, as_function, nullptr, extra); });
  cuStreamSynchronize(s);
  cost("cuCtxSetCurrent(same)", 500, [&] { cuCtxSetCurrent(c); });
  CUevent e = nullptr;
  cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
  cost("stream synchronise, idle", 500, [&] { cuStreamSynchronize(s); });
  cost("event record", 500, [&] { cuEventRecord(e, s); });
  cost("event record + query until done", 500, [&] {
    cuEventRecord(e, s);
    while (cuEventQuery(e) == CUDA_ERROR_NOT_READY) {}
  });
  cost("event record + synchronise", 500, [&] {
    cuEventRecord(e, s);
    cuEventSynchronize(e);
  });
  cost("launch + event record + query until done", 500, [&] {
    cuLaunchKernel(as_function, 1, 1, 1, 64, 1, 1, 0, s, nullptr, extra);
    cuEventRecord(e, s);
    while (cuEventQuery(e) == CUDA_ERROR_NOT_READY) {}
  });
  cost("launch + stream synchronise", 500, [&] {
    cuLaunchKernel(as_function, 1, 1, 1, 64, 1, 1, 0, s, nullptr, extra);
    cuStreamSynchronize(s);
  });
  void* pinned = nullptr;
  cuMemHostAlloc(&pinned, 64 << 20, CU_MEMHOSTALLOC_PORTABLE);
  std::vector<char> pageable(64 << 20, 1);
  for (size_t size : {size_t(4), size_t(4096), size_t(65536), size_t(262144), size_t(1) << 20}) {
    std::printf("-- %zu bytes\n", size);
    cost("  HtoDAsync pageable issue", 200, [&] { cuMemcpyHtoDAsync(p, pageable.data(), size, s); });
    cuStreamSynchronize(s);
    cost("  HtoDAsync pinned issue", 200, [&] { cuMemcpyHtoDAsync(p, pinned, size, s); });
    cuStreamSynchronize(s);
    cost("  memcpy into pinned", 200, [&] { std::memcpy(pinned, pageable.data(), size); });
    cost("  DtoHAsync pinned + event + query", 200, [&] {
      cuMemcpyDtoHAsync(pinned, p, size, s);
      cuEventRecord(e, s);
      while (cuEventQuery(e) == CUDA_ERROR_NOT_READY) {}
    });
    cost("  DtoH pageable", 200, [&] { cuMemcpyDtoH(pageable.data(), p, size); });
  }
  unsigned* word = static_cast<unsigned*>(pinned);
  CUdeviceptr device_word = 0;
  cuMemHostGetDevicePointer(&device_word, pinned, 0);
  std::printf("host and device pointer equal: %d\n", device_word == reinterpret_cast<CUdeviceptr>(pinned));
  cost("cuStreamWriteValue32", 500, [&] { cuStreamWriteValue32(s, device_word, 1, 0); });
  cuStreamSynchronize(s);
  std::printf("write value on the legacy stream: %d\n", cuStreamWriteValue32(nullptr, device_word, 7, 0));
  cuCtxSynchronize();
  std::printf("word %u\n", *word);
  // How deep a channel is: a gate holds the stream, launches are counted until one takes long.
  *word = 0;
  cuStreamWaitValue32(s, device_word, 1, CU_STREAM_WAIT_VALUE_GEQ);
  int depth = 0;
  const auto begin = steady::now();
  std::vector<double> slow;
  for (; depth < 900; ++depth) {
    const auto t = steady::now();
    cuLaunchKernel(as_function, 1, 1, 1, 64, 1, 1, 0, s, nullptr, extra);
    if (microseconds_since(t) > 1000) slow.push_back(depth);
  }
  std::printf("900 launches behind a gate: %.0f us, slow ones %zu\n", microseconds_since(begin), slow.size());
  *word = 1;
  cuStreamSynchronize(s);
  CUdeviceptr q = 0;
  for (size_t size : {size_t(512), size_t(2) << 20, size_t(64) << 20, size_t(1) << 30}) {
    std::printf("-- allocate %zu\n", size);
    cost("  cuMemAlloc + cuMemFree", 30, [&] { cuMemAlloc(&q, size); cuMemFree(q); });
    std::vector<CUdeviceptr> many;
    cost("  cuMemAlloc", 20, [&] { cuMemAlloc(&q, size); many.push_back(q); });
    cost("  cuMemFree", 20, [&] { cuMemFree(many.back()); many.pop_back(); });
  }
  CUdeviceptr window = 0;
  std::printf("reserve 1 TiB: %d\n", cuMemAddressReserve(&window, size_t(1) << 40, 0, 0, 0));
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (size_t size : {size_t(2) << 20, size_t(64) << 20, size_t(1) << 30}) {
    std::printf("-- map %zu into a window\n", size);
    CUmemGenericAllocationHandle h{};
    cost("  cuMemCreate", 1, [&] { cuMemCreate(&h, size, &prop, 0); cuMemRelease(h); });
    cost("  create + map + set access", 20, [&] {
      cuMemCreate(&h, size, &prop, 0);
      cuMemMap(window, size, 0, h, 0);
      cuMemSetAccess(window, size, &access, 1);
      cuMemUnmap(window, size);
      cuMemRelease(h);
    });
  }
  CUstream many_streams[8];
  for (auto& x : many_streams) cost("cuStreamCreate", 1, [&] { cuStreamCreate(&x, CU_STREAM_NON_BLOCKING); });
  std::printf("DONE\n");
  return 0;
}
