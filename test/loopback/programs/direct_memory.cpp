// SPDX-License-Identifier: Apache-2.0
// Host memory that kernels use directly: pinned, registered and managed, reached in every way that a program can hand an
// address to a kernel; seen after each kind of wait; never overwritten where no kernel wrote; readable and writable by the
// system. Runs unchanged on a local GPU.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "test/loopback/programs/common.hpp"

// follow(T** place, int value): **place = value + (what was there). add(n, x, y): y[i] += x[i]. walk(node* head, int* sum): sums a
// list of {node* next; int value}. nested({long, int* where, int}): *where = value, the address at 8 in a struct.
static const char more_ptx[] = R"(.version 7.0
.target sm_52
.address_size 64
.visible .global .align 8 .u64 hidden;

.visible .entry follow(.param .u64 place, .param .u32 value)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [place];
  ld.param.u32 %r1, [value];
  ld.u64 %rd2, [%rd1];
  ld.u32 %r2, [%rd2];
  add.s32 %r3, %r1, %r2;
  st.u32 [%rd2], %r3;
  ret;
}

.visible .entry through_global(.param .u32 value)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u32 %r1, [value];
  mov.u64 %rd1, hidden;
  ld.global.u64 %rd2, [%rd1];
  st.u32 [%rd2], %r1;
  ret;
}

.visible .entry nested(.param .align 8 .b8 packed[24])
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [packed+8];
  ld.param.u32 %r1, [packed+16];
  st.u32 [%rd1], %r1;
  ret;
}

.visible .entry add(.param .u32 count, .param .u64 x, .param .u64 y)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<6>;
  ld.param.u32 %r1, [count];
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.f32 %f1, [%rd4];
  ld.f32 %f2, [%rd5];
  add.f32 %f3, %f1, %f2;
  st.f32 [%rd5], %f3;
DONE:
  ret;
}

.visible .entry answer_when_asked(.param .u64 question, .param .u64 answer)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [question];
  ld.param.u64 %rd2, [answer];
LOOP:
  ld.volatile.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra LOOP;
  add.u32 %r1, %r1, 1;
  st.volatile.u32 [%rd2], %r1;
WAIT:
  ld.volatile.u32 %r2, [%rd1];
  setp.ne.u32 %p1, %r2, 7;
  @%p1 bra WAIT;
  ret;
}

.visible .entry walk(.param .u64 head, .param .u64 sum)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [head];
  ld.param.u64 %rd2, [sum];
  mov.u32 %r1, 0;
LOOP:
  setp.eq.u64 %p1, %rd1, 0;
  @%p1 bra DONE;
  ld.u32 %r2, [%rd1+8];
  add.s32 %r1, %r1, %r2;
  mul.lo.s32 %r2, %r2, 10;
  st.u32 [%rd1+8], %r2;
  ld.u64 %rd1, [%rd1];
  bra LOOP;
DONE:
  st.u32 [%rd2], %r1;
  ret;
}
)";

static const char variable_ptx[] = R"(.version 7.0
.target sm_52
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 counter = 5;

.visible .entry bump(.param .u32 step)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u32 %r1, [step];
  mov.u64 %rd1, counter;
  ld.global.u32 %r2, [%rd1];
  add.u32 %r3, %r1, %r2;
  st.global.u32 [%rd1], %r3;
  ret;
}
)";

struct more_kernels {
  CUmodule module;
  CUfunction follow, through_global, nested, add, walk, answer_when_asked;
  more_kernels() {
    CHECK(cuModuleLoadData(&module, more_ptx));
    CHECK(cuModuleGetFunction(&follow, module, "follow"));
    CHECK(cuModuleGetFunction(&through_global, module, "through_global"));
    CHECK(cuModuleGetFunction(&nested, module, "nested"));
    CHECK(cuModuleGetFunction(&add, module, "add"));
    CHECK(cuModuleGetFunction(&walk, module, "walk"));
    CHECK(cuModuleGetFunction(&answer_when_asked, module, "answer_when_asked"));
  }
};

template <class... Arguments>
static void launch(CUfunction f, unsigned blocks, unsigned threads, CUstream stream, Arguments... arguments) {
  void* parameters[] = {&arguments...};
  CHECK(cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr));
}

static CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

static int* pinned(std::size_t count, unsigned flags = 0) {
  void* p = nullptr;
  CHECK(cuMemHostAlloc(&p, count * sizeof(int), flags));
  for (std::size_t i = 0; i < count; ++i) REQUIRE(static_cast<int*>(p)[i] == 0);
  return static_cast<int*>(p);
}

static void ways(const gpu& g, const more_kernels& more) {
  // By argument, with an offset, after each kind of wait.
  int* p = pinned(1000);
  CUstream stream;
  CUevent event;
  CHECK(cuStreamCreate(&stream, 0));
  CHECK(cuEventCreate(&event, 0));
  g.launch_store(address(p), 11);
  CHECK(cuCtxSynchronize());
  REQUIRE(p[0] == 11 && p[1] == 0);
  g.launch_store(address(p + 777), 12, stream);
  CHECK(cuStreamSynchronize(stream));
  REQUIRE(p[777] == 12);
  g.launch_store(address(p + 1), 13, stream);
  CHECK(cuEventRecord(event, stream));
  CHECK(cuEventSynchronize(event));
  REQUIRE(p[1] == 13);
  g.launch_store(address(p + 2), 14, stream);
  CHECK(cuEventRecord(event, stream));
  while (cuEventQuery(event) != CUDA_SUCCESS) {
  }
  REQUIRE(p[2] == 14);
  g.launch_store(address(p + 3), 15, stream);
  while (cuStreamQuery(stream) != CUDA_SUCCESS) {
  }
  REQUIRE(p[3] == 15);
  std::printf("by argument: %d %d %d %d %d\n", p[0], p[777], p[1], p[2], p[3]);

  // Inside a struct.
  int* q = pinned(100);
  struct {
    long filler;
    int* where;
    int value, more;
  } packed = {1, q + 5, 21, 0};
  launch(more.nested, 1, 1, nullptr, packed);
  CHECK(cuCtxSynchronize());
  REQUIRE(q[5] == 21);

  // Through a pointer in device memory; the old value, which the host wrote, is part of the result.
  int* r = pinned(100);
  r[7] = 1000;
  const CUdeviceptr target = address(r + 7);
  CUdeviceptr cell;
  CHECK(cuMemAlloc(&cell, sizeof target));
  CHECK(cuMemcpyHtoD(cell, &target, sizeof target));
  launch(more.follow, 1, 1, nullptr, cell, 31);
  CHECK(cuCtxSynchronize());
  REQUIRE(r[7] == 1031);

  // Through a variable of the module.
  int* s = pinned(10);
  CUdeviceptr hidden, through = address(s + 9);
  CHECK(cuModuleGetGlobal(&hidden, nullptr, more.module, "hidden"));
  CHECK(cuMemcpyHtoD(hidden, &through, sizeof through));
  launch(more.through_global, 1, 1, nullptr, 41);
  CHECK(cuCtxSynchronize());
  REQUIRE(s[9] == 41);

  // By its device pointer, memory made for mapping.
  int* t = pinned(100, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
  CUdeviceptr device_view;
  CHECK(cuMemHostGetDevicePointer(&device_view, t, 0));
  g.launch_store(device_view + 4 * sizeof(int), 51);
  CHECK(cuCtxSynchronize());
  REQUIRE(t[4] == 51);
  std::printf("in a struct %d, through device memory %d, through a variable %d, by its device pointer %d\n", q[5], r[7], s[9], t[4]);

  // Registered memory, beginning anywhere in a mapping: sanitizers put every heap at the same place, and the server cannot
  // have what its own uses.
  auto* heap = static_cast<int*>(mmap(nullptr, 5000 * sizeof(int), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(heap != MAP_FAILED);
  std::fill_n(heap, 5000, 7);
  int* registered = heap + 3;
  CHECK(cuMemHostRegister(registered, 4000 * sizeof(int), CU_MEMHOSTREGISTER_DEVICEMAP));
  CHECK(cuMemHostGetDevicePointer(&device_view, registered, 0));
  g.launch_store(device_view, 61);
  g.launch_store(device_view + 3999 * sizeof(int), 62);
  CHECK(cuCtxSynchronize());
  REQUIRE(heap[2] == 7 && heap[3] == 61 && heap[4] == 7 && heap[4001] == 7 && heap[4002] == 62 && heap[4003] == 7);
  g.launch_store(device_view + sizeof(int), 63);
  CHECK(cuCtxSynchronize());
  CHECK(cuMemHostUnregister(registered));
  REQUIRE(heap[4] == 63);
  std::printf("registered: %d %d %d\n", heap[3], heap[4002], heap[4]);
  munmap(heap, 5000 * sizeof(int));

  CHECK(cuMemFree(cell));
  for (int* each : {p, q, r, s, t}) CHECK(cuMemFreeHost(each));
  // What is freed and allocated again begins anew.
  int* again = pinned(1000);
  g.launch_fill(address(again), 9, 1000);
  CHECK(cuCtxSynchronize());
  for (int i = 0; i < 1000; ++i) REQUIRE(again[i] == 9);
  CHECK(cuMemFreeHost(again));
  CHECK(cuEventDestroy(event));
  CHECK(cuStreamDestroy(stream));
}

// Host threads write all the time to places of their own in pages that kernels write to as well.
static void neighbours(const gpu& g) {
  constexpr int count = 8192;
  int* p = pinned(count, CU_MEMHOSTALLOC_DEVICEMAP);
  int* untouched = pinned(count, CU_MEMHOSTALLOC_DEVICEMAP);
  std::atomic<bool> stop_now{false};
  std::thread writer([&] {
    for (int round = 1; !stop_now; ++round)
      for (int i = 1; i < count; i += 2) {
        __atomic_store_n(&p[i], round, __ATOMIC_RELAXED);
        __atomic_store_n(&untouched[i], round, __ATOMIC_RELAXED);
        if (__atomic_load_n(&p[i], __ATOMIC_RELAXED) != round) stop("a host write was lost", CUDA_SUCCESS, __LINE__);
      }
  });
  for (int round = 1; round <= 100; ++round) {
    const int at = round * 80 % count / 2 * 2;
    g.launch_store(address(&p[at]), round);
    CHECK(cuCtxSynchronize());
    REQUIRE(__atomic_load_n(&p[at], __ATOMIC_RELAXED) == round);
  }
  stop_now = true;
  writer.join();
  for (int i = 0; i < count; i += 2) REQUIRE(untouched[i] == 0);
  for (int i = 3; i < count; i += 2) REQUIRE(untouched[i] == untouched[1] || untouched[i] == untouched[1] - 1);
  CHECK(cuMemFreeHost(p));
  CHECK(cuMemFreeHost(untouched));
  std::printf("neighbours kept\n");
}

static void copies(const gpu& g) {
  int* p = pinned(256, CU_MEMHOSTALLOC_DEVICEMAP);
  int* other = pinned(256, CU_MEMHOSTALLOC_DEVICEMAP);
  CUdeviceptr device;
  CHECK(cuMemAlloc(&device, 256 * sizeof(int)));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, 0));
  // A copy in a stream takes what the kernel before it wrote.
  g.launch_fill(address(p), 5, 256, stream);
  CHECK(cuMemcpyHtoDAsync(device, p, 256 * sizeof(int), stream));
  CHECK(cuMemcpyDtoHAsync(other, device, 256 * sizeof(int), stream));
  CHECK(cuStreamSynchronize(stream));
  for (int i = 0; i < 256; ++i) REQUIRE(p[i] == 5 && other[i] == 5);
  // What the host wrote is older than a fill or a copy onto it.
  p[0] = 77;
  CHECK(cuMemsetD32(address(p), 6, 256));
  CHECK(cuCtxSynchronize());
  REQUIRE(p[0] == 6 && p[255] == 6);
  p[1] = 78;
  CHECK(cuMemcpyDtoH(p, device, 256 * sizeof(int)));
  REQUIRE(p[0] == 5 && p[1] == 5);
  p[2] = 79;
  CHECK(cuMemcpy(address(other), address(p), 256 * sizeof(int)));
  CHECK(cuCtxSynchronize());
  REQUIRE(other[2] == 79 && other[3] == 5);
  int plain[256];
  CHECK(cuMemcpy(address(plain), address(other), sizeof plain));
  REQUIRE(plain[2] == 79 && plain[255] == 5);
  plain[255] = 80;
  CHECK(cuMemcpy(address(other), address(plain), sizeof plain));
  REQUIRE(other[255] == 80);
  CHECK(cuMemcpyHtoD(device, other, sizeof plain));
  CHECK(cuMemcpyDtoH(plain, device, sizeof plain));
  REQUIRE(plain[255] == 80 && plain[2] == 79);
  CHECK(cuMemFree(device));
  CHECK(cuMemFreeHost(p));
  CHECK(cuMemFreeHost(other));
  CHECK(cuStreamDestroy(stream));
  std::printf("copies\n");
}

// The system reads and writes there as in any other memory.
// Pinned memory filled by the device, which frameworks do with words that a kernel waits for.
static void fills() {
  int* p = pinned(64);
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(p + 2), 77, 2, stream));
  CHECK(cuStreamSynchronize(stream));
  std::printf("filled: %d %d %d %d\n", p[1], p[2], p[3], p[4]);
  REQUIRE(p[2] == 77 && p[3] == 77 && p[1] != 77 && p[4] != 77);
  CHECK(cuMemsetD8(reinterpret_cast<CUdeviceptr>(p + 4), 1, 4));
  CHECK(cuCtxSynchronize());
  REQUIRE(p[4] == 0x01010101);
  CHECK(cuStreamDestroy(stream));
  CHECK(cuMemFreeHost(p));
}

static void system_calls(const gpu& g, int* p, int count) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const auto bytes = static_cast<ssize_t>(count * static_cast<int>(sizeof(int)));
  g.launch_fill(address(p), 17, static_cast<unsigned>(count));
  CHECK(cuCtxSynchronize());
  REQUIRE(write(ends[1], p, static_cast<std::size_t>(bytes)) == bytes);
  std::vector<int> seen(static_cast<std::size_t>(count));
  REQUIRE(read(ends[0], seen.data(), static_cast<std::size_t>(bytes)) == bytes);
  for (int v : seen) REQUIRE(v == 17);
  for (int& v : seen) v = 18;
  REQUIRE(write(ends[1], seen.data(), static_cast<std::size_t>(bytes)) == bytes);
  REQUIRE(read(ends[0], p, static_cast<std::size_t>(bytes)) == bytes);
  CUdeviceptr device;
  CHECK(cuMemAlloc(&device, static_cast<std::size_t>(bytes)));
  CHECK(cuMemcpyDtoD(device, address(p), static_cast<std::size_t>(bytes)));
  CHECK(cuMemcpyDtoH(seen.data(), device, static_cast<std::size_t>(bytes)));
  for (int v : seen) REQUIRE(v == 18);
  CHECK(cuMemFree(device));
  close(ends[0]);
  close(ends[1]);
}

static void managed(const gpu& g, const more_kernels& more) {
  int there = 0;
  CHECK(cuDeviceGetAttribute(&there, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, g.device));
  REQUIRE(there == 1);
  CUdeviceptr x, y;
  constexpr int count = 100000;
  CHECK(cuMemAllocManaged(&x, count * sizeof(float), CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemAllocManaged(&y, count * sizeof(float), CU_MEM_ATTACH_GLOBAL));
  auto* xs = reinterpret_cast<float*>(x);
  auto* ys = reinterpret_cast<float*>(y);
  for (int i = 0; i < count; ++i) {
    xs[i] = 1.0f;
    ys[i] = 2.0f;
  }
  launch(more.add, (count + 255) / 256, 256, nullptr, count, x, y);
  CHECK(cuCtxSynchronize());
  for (int i = 0; i < count; ++i) REQUIRE(ys[i] == 3.0f && xs[i] == 1.0f);
  ys[5] = 100.0f;
  launch(more.add, (count + 255) / 256, 256, nullptr, count, x, y);
  CHECK(cuCtxSynchronize());
  REQUIRE(ys[5] == 101.0f && ys[6] == 4.0f);
  std::printf("two arrays: %g %g\n", static_cast<double>(ys[5]), static_cast<double>(ys[6]));

  // Several allocations in a page, and a list that the host builds.
  struct node {
    node* next;
    int value;
  };
  node* head = nullptr;
  std::vector<CUdeviceptr> nodes(50);
  for (int i = 0; i < 50; ++i) {
    CHECK(cuMemAllocManaged(&nodes[static_cast<std::size_t>(i)], sizeof(node), CU_MEM_ATTACH_GLOBAL));
    auto* n = reinterpret_cast<node*>(nodes[static_cast<std::size_t>(i)]);
    n->next = head;
    n->value = i;
    head = n;
  }
  CUdeviceptr sum;
  CHECK(cuMemAllocManaged(&sum, sizeof(int), CU_MEM_ATTACH_GLOBAL));
  launch(more.walk, 1, 1, nullptr, head, sum);
  CHECK(cuCtxSynchronize());
  REQUIRE(*reinterpret_cast<int*>(sum) == 49 * 50 / 2);
  int here = 0;
  for (const node* n = head; n != nullptr; n = n->next) here += n->value;
  REQUIRE(here == 10 * 49 * 50 / 2);
  std::printf("list: %d, then %d\n", *reinterpret_cast<int*>(sum), here);
  for (const auto n : nodes) CHECK(cuMemFree(n));

  // An address in managed memory that leads to pinned memory.
  int* p = pinned(4);
  auto** slot = reinterpret_cast<int**>(x);
  *slot = p + 2;
  launch(more.follow, 1, 1, nullptr, x, 71);
  CHECK(cuCtxSynchronize());
  REQUIRE(p[2] == 71);
  CHECK(cuMemFreeHost(p));

  system_calls(g, reinterpret_cast<int*>(x), 4000);
  CHECK(cuMemsetD8(x, 0, 64));
  CHECK(cuCtxSynchronize());
  REQUIRE(*reinterpret_cast<int*>(x) == 0);

  unsigned is_managed = 0, type = 0;
  CUdeviceptr as_device = 0;
  void* as_host = nullptr;
  CHECK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, x + 100));
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, x + 100));
  CHECK(cuPointerGetAttribute(&as_device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, x + 100));
  CHECK(cuPointerGetAttribute(&as_host, CU_POINTER_ATTRIBUTE_HOST_POINTER, x + 100));
  std::printf("managed: %u, type %u, %d %d\n", is_managed & 0xff, type, as_device == x + 100, address(as_host) == x + 100);
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&sum, 0, CU_MEM_ATTACH_GLOBAL));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&sum, 4, CU_MEM_ATTACH_SINGLE));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(nullptr, 4, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuStreamAttachMemAsync(nullptr, x, 0, CU_MEM_ATTACH_HOST));
  CHECK(cuStreamAttachMemAsync(nullptr, x, 0, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemAdvise(x, count * sizeof(float), CU_MEM_ADVISE_SET_READ_MOSTLY, CUmemLocation{}));
  int read_mostly = 0;
  CHECK(cuMemRangeGetAttribute(&read_mostly, sizeof read_mostly, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, x, count * sizeof(float)));
  std::printf("read mostly: %d\n", read_mostly);
  CUmemLocation place{};
  place.type = CU_MEM_LOCATION_TYPE_DEVICE;
  place.id = g.device;
  ys[0] = 5.0f;
  CHECK(cuMemPrefetchAsync(y, count * sizeof(float), place, 0, nullptr));
  launch(more.add, (count + 255) / 256, 256, nullptr, count, x, y);
  place.type = CU_MEM_LOCATION_TYPE_HOST;
  CHECK(cuMemPrefetchAsync(y, count * sizeof(float), place, 0, nullptr));
  CHECK(cuCtxSynchronize());
  REQUIRE(ys[0] == 5.0f);  // x[0] is 0
  CHECK(cuMemFree(x));
  CHECK(cuMemFree(y));
  CHECK(cuMemFree(sum));
}

// Variables that are managed memory: of a module, of a library.
static void variables() {
  CUmodule module;
  CUlibrary library;
  CUfunction bump;
  CUkernel kernel;
  CUdeviceptr counter;
  std::size_t bytes = 0;
  CHECK(cuModuleLoadData(&module, variable_ptx));
  CHECK(cuModuleGetFunction(&bump, module, "bump"));
  CHECK(cuModuleGetGlobal(&counter, &bytes, module, "counter"));
  auto* seen = reinterpret_cast<int*>(counter);
  REQUIRE(bytes == 4 && *seen == 5);
  *seen = 100;
  launch(bump, 1, 1, nullptr, 11);
  CHECK(cuCtxSynchronize());
  std::printf("variable of a module: %d\n", *seen);
  REQUIRE(*seen == 111);
  CHECK(cuModuleUnload(module));

  CHECK(cuLibraryLoadData(&library, variable_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cuLibraryGetManaged(&counter, &bytes, library, "counter"));
  CHECK(cuLibraryGetKernel(&kernel, library, "bump"));
  seen = reinterpret_cast<int*>(counter);
  REQUIRE(bytes == 4 && *seen == 5);
  *seen = 200;
  launch(reinterpret_cast<CUfunction>(kernel), 1, 1, nullptr, 22);
  CHECK(cuCtxSynchronize());
  std::printf("variable of a library: %d\n", *seen);
  REQUIRE(*seen == 222);
  EXPECT_RESULT(CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged(&counter, &bytes, library, "nothing"));
  CHECK(cuLibraryUnload(library));
}

// Program and kernel wait for one another through memory, without a call in between.
static void polling(const more_kernels& more) {
  int* p = pinned(64, CU_MEMHOSTALLOC_DEVICEMAP);
  launch(more.answer_when_asked, 1, 1, nullptr, address(p), address(p + 32));
  EXPECT_RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
  __atomic_store_n(&p[0], 41, __ATOMIC_RELEASE);
  while (__atomic_load_n(&p[32], __ATOMIC_ACQUIRE) == 0) usleep(10);
  REQUIRE(p[32] == 42);
  EXPECT_RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
  __atomic_store_n(&p[0], 7, __ATOMIC_RELEASE);
  CHECK(cuCtxSynchronize());
  CHECK(cuMemFreeHost(p));
  std::printf("polling\n");
}

static void child_of_fork(const gpu& g) {
  int* p = pinned(1000);
  g.launch_fill(address(p), 3, 1000);
  CHECK(cuCtxSynchronize());
  p[1] = 4;
  const pid_t child = fork();
  if (child == 0) {
    const bool right = p[0] == 3 && p[1] == 4 && p[999] == 3;
    p[0] = 99;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  g.launch_store(address(p + 2), 5);
  CHECK(cuCtxSynchronize());
  REQUIRE(p[2] == 5 && p[0] == 3 && p[1] == 4);
  CHECK(cuMemFreeHost(p));
  std::printf("fork\n");
}

int main() {
  gpu g;
  more_kernels more;
  int mapped = 0;
  CHECK(cuDeviceGetAttribute(&mapped, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, g.device));
  REQUIRE(mapped == 1);
  ways(g, more);
  copies(g);
  fills();
  int* p = pinned(4000);
  system_calls(g, p, 4000);
  CHECK(cuMemFreeHost(p));
  managed(g, more);
  neighbours(g);
  variables();
  polling(more);
  child_of_fork(g);
  std::printf("PASSED\n");
}
