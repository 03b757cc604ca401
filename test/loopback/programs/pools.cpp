// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation: addresses are there at once and reused, contents follow the order of the stream, pools keep
// their settings, wrong arguments get the driver's codes. Runs natively as well.
#include <thread>

#include "test/loopback/programs/common.hpp"

static void say(const char* what, CUresult r) { std::printf("%s: %s\n", what, name_of(r)); }

static void contents(const gpu& g) {
  constexpr unsigned count = 1 << 16;
  CUstream a, b;
  CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  CUevent ready;
  CHECK(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
  std::vector<int> seen(count);
  for (int round = 0; round < 200; ++round) {
    CUdeviceptr p, q;
    CHECK(cuMemAllocAsync(&p, count * sizeof(int), a));
    g.launch_fill(p, round, count, a);
    CHECK(cuEventRecord(ready, a));
    CHECK(cuStreamWaitEvent(b, ready, 0));
    CHECK(cuMemAllocAsync(&q, count * sizeof(int), b));
    CHECK(cuMemcpyDtoDAsync(q, p, count * sizeof(int), b));
    CHECK(cuMemFreeAsync(p, b));
    CHECK(cuMemcpyDtoHAsync(seen.data(), q, count * sizeof(int), b));
    CHECK(cuMemFreeAsync(q, b));
    CHECK(cuStreamSynchronize(b));
    for (const int v : seen) REQUIRE(v == round);
  }
  CHECK(cuEventDestroy(ready));
  CHECK(cuStreamDestroy(a));
  CHECK(cuStreamDestroy(b));
  std::printf("contents follow the stream\n");
}

static void pools(const gpu& g) {
  CUmemoryPool usual, current, made = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&usual, g.device));
  CHECK(cuDeviceGetMemPool(&current, g.device));
  REQUIRE(usual == current);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device};
  CHECK(cuMemPoolCreate(&made, &properties));
  cuuint64_t threshold = 1, wanted = 64 << 20;
  CHECK(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  REQUIRE(threshold == 0);
  CHECK(cuMemPoolSetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &wanted));
  CHECK(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  REQUIRE(threshold == wanted);
  int reuse = -1, off = 0;
  CHECK(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
  REQUIRE(reuse == 1);
  CHECK(cuMemPoolSetAttribute(made, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &off));
  CHECK(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
  REQUIRE(reuse == 0);
  CUmemAccess_flags flags{};
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, g.device};
  CHECK(cuMemPoolGetAccess(&flags, made, &here));
  REQUIRE(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUmemAccessDesc access{here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(cuMemPoolSetAccess(made, &access, 1));

  CUstream stream;
  CHECK(cuStreamCreate(&stream, 0));
  CUdeviceptr p, q;
  CHECK(cuMemAllocFromPoolAsync(&p, 3 << 20, made, stream));
  cuuint64_t used = 0, held = 0;
  CHECK(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  REQUIRE(used >= (3u << 20));
  CUmemoryPool of = nullptr;
  CUmemorytype type{};
  int device = -1;
  CUcontext context = g.context;
  CHECK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p + 100));
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 100));
  CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p + 100));
  say("context of a pool's memory", cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p));
  std::printf("%s\n", context == nullptr ? "none" : context == g.context ? "the primary one" : "another one");
  REQUIRE(of == made && type == CU_MEMORYTYPE_DEVICE && device == g.device);
  CHECK(cuMemFreeAsync(p, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held));
  REQUIRE(held >= (3u << 20));
  CHECK(cuMemPoolTrimTo(made, 0));
  CHECK(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held));
  REQUIRE(held == 0);

  CHECK(cuDeviceSetMemPool(g.device, made));
  CHECK(cuDeviceGetMemPool(&current, g.device));
  REQUIRE(current == made);
  CHECK(cuMemAllocAsync(&q, 1 << 20, stream));
  CHECK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q));
  REQUIRE(of == made);
  CHECK(cuMemFree(q));
  CHECK(cuMemPoolDestroy(made));
  CHECK(cuDeviceGetMemPool(&current, g.device));
  REQUIRE(current == usual);
  CHECK(cuMemGetDefaultMemPool(&current, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
  REQUIRE(current == usual);
  CHECK(cuMemGetMemPool(&current, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
  REQUIRE(current == usual);
  CHECK(cuStreamDestroy(stream));
  std::printf("pools keep what they are told\n");
}

static void codes(const gpu& g) {
  CUdeviceptr p = 0;
  CUmemoryPool pool = nullptr, usual;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 99};
  CHECK(cuDeviceGetDefaultMemPool(&usual, g.device));
  say("a pool on a device that is not there", cuMemPoolCreate(&pool, &properties));
  properties.location = {CU_MEM_LOCATION_TYPE_INVALID, 0};
  say("a pool nowhere", cuMemPoolCreate(&pool, &properties));
  say("a pool without a place for it", cuMemPoolCreate(nullptr, &properties));
  say("destroying the default pool", cuMemPoolDestroy(usual));
  say("destroying no pool", cuMemPoolDestroy(nullptr));
  say("the default pool of no device", cuDeviceGetDefaultMemPool(&pool, 99));
  say("allocating nowhere", cuMemAllocAsync(nullptr, 64, nullptr));
  say("allocating nothing", cuMemAllocAsync(&p, 0, nullptr));
  say("allocating too much", cuMemAllocAsync(&p, std::size_t{1} << 46, nullptr));
  say("allocating from no pool", cuMemAllocFromPoolAsync(&p, 64, nullptr, nullptr));
  say("freeing what is none", cuMemFreeAsync(0x1000, nullptr));
  CHECK(cuMemAllocAsync(&p, 1000, nullptr));
  say("freeing from the middle", cuMemFreeAsync(p + 8, nullptr));
  CHECK(cuMemFreeAsync(p, nullptr));
  CHECK(cuMemAlloc(&p, 1000));
  say("freeing what cuMemAlloc gave", cuMemFreeAsync(p, nullptr));
  CHECK(cuCtxSynchronize());
  cuuint64_t value = 0;
  say("an attribute that is none", cuMemPoolGetAttribute(usual, static_cast<CUmemPool_attribute>(77), &value));
  value = 5;
  say("setting what is counted", cuMemPoolSetAttribute(usual, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
  say("a high mark that is not zero", cuMemPoolSetAttribute(usual, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
  value = 0;
  say("a high mark that is", cuMemPoolSetAttribute(usual, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
}

// Threads that take and give back at the same time: no piece is ever known twice.
static void many_threads(const gpu& g) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&g, t] {
      CHECK(cuCtxSetCurrent(g.context));
      CUstream stream;
      CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      for (int i = 0; i < 300; ++i) {
        CUdeviceptr p;
        int seen = 0;
        const int value = t * 1000 + i;
        CHECK(cuMemAllocAsync(&p, std::size_t{4096} * static_cast<unsigned>(1 + i % 7), stream));
        CHECK(cuMemsetD32Async(p, static_cast<unsigned>(value), 4, stream));
        CHECK(cuMemcpyDtoHAsync(&seen, p + 12, sizeof seen, stream));
        CHECK(cuMemFreeAsync(p, stream));
        CHECK(cuStreamSynchronize(stream));
        REQUIRE(seen == value);
      }
      CHECK(cuStreamDestroy(stream));
    });
  for (auto& t : threads) t.join();
  std::printf("threads do not disturb each other\n");
}

int main() {
  gpu g;
  int supported = 0;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, g.device));
  REQUIRE(supported == 1);
  contents(g);
  pools(g);
  codes(g);
  many_threads(g);
  std::printf("PASSED\n");
  return 0;
}
