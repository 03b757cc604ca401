// SPDX-License-Identifier: Apache-2.0
// Prints the return code of many driver calls with right and wrong arguments, one line a case, and nothing that differs
// from run to run. The real driver's output, natively, is the reference; the same program through gpuwire must print the same.
//
// argv[1]: a PTX or fatbin file with the kernels of return_codes_kernels.cu.
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

std::set<std::string> left_out;  // calls on which the native driver crashes: named in a file, one a line

void say(const char* what, CUresult r) {
  const char* name = nullptr;
  cuGetErrorName(r, &name);
  std::printf("%-58s %3d %s\n", what, r, name != nullptr ? name : "?");
}
// The call is named on stderr first, so that a crash shows who did it.
#define SAY(call)                             \
  do {                                        \
    if (left_out.count(#call) != 0) break;    \
    std::fprintf(stderr, "%s\n", #call);      \
    say(#call, call);                         \
  } while (false)

template <class Handle>
Handle bogus(std::uintptr_t value) { return reinterpret_cast<Handle>(value); }

std::vector<char> read_file(const char* path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  all.push_back('\0');
  return all;
}

void before_init() {
  int v = 0;
  CUdevice d = 0;
  CUcontext c = nullptr;
  CUstream s = nullptr;
  CUdeviceptr p = 0;
  SAY(cuDriverGetVersion(&v));
  SAY(cuDriverGetVersion(nullptr));
  SAY(cuDeviceGet(&d, 0));
  SAY(cuCtxGetCurrent(&c));
  SAY(cuCtxSetCurrent(nullptr));
  SAY(cuMemAlloc(&p, 16));
  SAY(cuStreamCreate(&s, 0));
  SAY(cuInit(1));
}

void devices() {
  CUdevice d = 0;
  int v = 0;
  char name[8];
  size_t bytes = 0;
  SAY(cuDeviceGet(&d, 0));
  SAY(cuDeviceGet(&d, 99));
  SAY(cuDeviceGet(&d, -1));
  SAY(cuDeviceGet(nullptr, 0));
  SAY(cuDeviceGetCount(nullptr));
  SAY(cuDeviceGetName(name, sizeof name, 0));
  std::printf("truncated name '%.8s'\n", std::strlen(name) < 8 ? "terminated" : "unterminated");
  SAY(cuDeviceGetName(name, 0, 0));
  SAY(cuDeviceGetName(nullptr, 8, 0));
  SAY(cuDeviceGetName(name, 8, 77));
  SAY(cuDeviceTotalMem(&bytes, 77));
  SAY(cuDeviceTotalMem(nullptr, 0));
  SAY(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  SAY(cuDeviceGetAttribute(&v, static_cast<CUdevice_attribute>(0), 0));
  SAY(cuDeviceGetAttribute(&v, static_cast<CUdevice_attribute>(9999), 0));
  SAY(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 77));
  SAY(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  SAY(cuDeviceGetByPCIBusId(&d, "nonsense"));
  SAY(cuDeviceGetByPCIBusId(&d, "ffff:ff:1f.0"));
}

void without_context() {
  CUcontext c = nullptr;
  CUdevice d = 0;
  CUdeviceptr p = 0;
  CUstream s = nullptr;
  CUevent e = nullptr;
  CUmodule m = nullptr;
  void* host = nullptr;
  size_t a = 0, b = 0;
  int least = 0, greatest = 0;
  SAY(cuCtxGetCurrent(&c));
  SAY(cuCtxGetDevice(&d));
  SAY(cuCtxSynchronize());
  SAY(cuMemAlloc(&p, 16));
  SAY(cuMemHostAlloc(&host, 16, 0));
  SAY(cuMemGetInfo(&a, &b));
  SAY(cuStreamCreate(&s, 0));
  SAY(cuEventCreate(&e, 0));
  SAY(cuModuleLoadData(&m, "x"));
  SAY(cuStreamSynchronize(nullptr));
  SAY(cuCtxPopCurrent(&c));
  SAY(cuCtxGetStreamPriorityRange(&least, &greatest));
  SAY(cuCtxSetCurrent(bogus<CUcontext>(0x1234560)));
  SAY(cuCtxPushCurrent(nullptr));
  SAY(cuCtxDestroy(nullptr));
}

void inactive_primary() {
  unsigned flags = 7;
  int active = 7;
  SAY(cuDevicePrimaryCtxGetState(0, &flags, &active));
  std::printf("inactive primary: flags %u active %d\n", flags, active);
  SAY(cuDevicePrimaryCtxGetState(99, &flags, &active));
  SAY(cuDevicePrimaryCtxRelease(0));
  SAY(cuDevicePrimaryCtxSetFlags(0, 0));
  SAY(cuDevicePrimaryCtxSetFlags(0, 0xff00));
  SAY(cuDevicePrimaryCtxRetain(nullptr, 0));
}

void memory() {
  CUdeviceptr p = 0, q = 0, base = 0;
  size_t bytes = 0;
  std::vector<char> host(4096);
  SAY(cuMemAlloc(&p, 0));
  SAY(cuMemAlloc(nullptr, 16));
  SAY(cuMemAlloc(&q, static_cast<size_t>(1) << 60));
  SAY(cuMemAlloc(&p, 4096));
  SAY(cuMemFree(0));
  SAY(cuMemFree(p + 8));
  SAY(cuMemFree(0x1234560));
  SAY(cuMemGetAddressRange(&base, &bytes, p + 100));
  std::printf("address range %d %zu\n", base == p, bytes);
  SAY(cuMemGetAddressRange(&base, &bytes, 0x1234560));
  SAY(cuMemcpyHtoD(p, host.data(), 4096));
  SAY(cuMemcpyHtoD(p, host.data(), 0));
  SAY(cuMemcpyHtoD(0x1234560, host.data(), 16));
  SAY(cuMemcpyHtoD(p, nullptr, 16));
  SAY(cuMemcpyDtoH(host.data(), p, 4096));
  SAY(cuMemcpyDtoH(host.data(), 0x1234560, 16));
  SAY(cuMemcpyDtoD(p, p + 2048, 1024));
  SAY(cuMemcpyDtoD(p, 0x1234560, 16));
  SAY(cuMemcpy(p, reinterpret_cast<CUdeviceptr>(host.data()), 64));
  SAY(cuMemcpyHtoDAsync(p, host.data(), 16, bogus<CUstream>(0x1234560)));
  SAY(cuMemsetD8(p, 1, 4096));
  SAY(cuMemsetD32(p, 1, 1024));
  SAY(cuMemsetD32(p + 1, 1, 16));
  SAY(cuMemsetD16(p + 1, 1, 16));
  SAY(cuMemsetD8(0x1234560, 1, 16));
  SAY(cuMemsetD8(p, 1, 0));
  SAY(cuMemFree(p));
  SAY(cuMemFree(p));
  void* h = nullptr;
  unsigned flags = 9;
  SAY(cuMemHostAlloc(&h, 4096, 0));
  SAY(cuMemHostGetFlags(&flags, h));
  SAY(cuMemHostGetFlags(&flags, host.data()));
  SAY(cuMemFreeHost(host.data()));
  SAY(cuMemFreeHost(h));
  SAY(cuMemFreeHost(nullptr));
  SAY(cuMemHostAlloc(&h, 0, 0));
  SAY(cuMemHostAlloc(nullptr, 16, 0));
  SAY(cuMemHostAlloc(&h, 16, 0x8000));
  SAY(cuMemHostUnregister(host.data()));
}

void pointers() {
  CUdeviceptr p = 0;
  cuMemAlloc(&p, 4096);
  unsigned type = 0;
  int ordinal = -5;
  CUcontext c = nullptr, now = nullptr;
  cuCtxGetCurrent(&now);
  int local = 0;
  SAY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 4));
  std::printf("type %u\n", type);
  SAY(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
  SAY(cuPointerGetAttribute(&c, CU_POINTER_ATTRIBUTE_CONTEXT, p));
  std::printf("ordinal %d context %d\n", ordinal, c == now);
  SAY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&local)));
  SAY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0));
  SAY(cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
  SAY(cuPointerGetAttribute(&type, static_cast<CUpointer_attribute>(999), p));
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* places[] = {&type, &ordinal};
  SAY(cuPointerGetAttributes(2, wanted, places, reinterpret_cast<CUdeviceptr>(&local)));
  std::printf("unknown pointer: type %u ordinal %d\n", type, ordinal);
  SAY(cuPointerGetAttributes(2, wanted, places, p));
  std::printf("device pointer: type %u ordinal %d\n", type, ordinal);
  cuMemFree(p);
  SAY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
}

void streams_and_events() {
  CUstream s = nullptr;
  CUevent e = nullptr, f = nullptr;
  float ms = 0;
  unsigned flags = 9;
  int priority = 99;
  SAY(cuStreamCreate(&s, 0));
  SAY(cuStreamCreate(nullptr, 0));
  SAY(cuStreamCreate(&s, 0x100));
  SAY(cuStreamQuery(s));
  SAY(cuStreamQuery(nullptr));
  SAY(cuStreamQuery(CU_STREAM_LEGACY));
  SAY(cuStreamQuery(CU_STREAM_PER_THREAD));
  SAY(cuStreamSynchronize(bogus<CUstream>(0x1234560)));
  SAY(cuStreamGetFlags(s, &flags));
  SAY(cuStreamGetPriority(s, &priority));
  std::printf("flags %u priority %d\n", flags, priority);
  CUstream high = nullptr;
  SAY(cuStreamCreateWithPriority(&high, CU_STREAM_NON_BLOCKING, -100));
  SAY(cuStreamGetPriority(high, &priority));
  std::printf("clamped priority %d\n", priority);
  SAY(cuEventCreate(&e, 0));
  SAY(cuEventCreate(&f, CU_EVENT_DISABLE_TIMING));
  SAY(cuEventCreate(nullptr, 0));
  SAY(cuEventCreate(&f, 0x8000));
  SAY(cuEventQuery(e));
  SAY(cuEventSynchronize(e));
  SAY(cuEventElapsedTime(&ms, e, e));
  SAY(cuEventRecord(e, s));
  SAY(cuStreamWaitEvent(high, e, 0));
  SAY(cuStreamWaitEvent(high, e, 77));
  SAY(cuStreamSynchronize(s));
  SAY(cuEventQuery(e));
  SAY(cuEventElapsedTime(&ms, e, e));
  SAY(cuEventElapsedTime(&ms, e, f));
  SAY(cuEventRecord(f, s));
  SAY(cuEventSynchronize(f));
  SAY(cuEventElapsedTime(&ms, e, f));
  SAY(cuEventElapsedTime(nullptr, e, e));
  SAY(cuEventRecord(nullptr, s));
  SAY(cuEventRecord(bogus<CUevent>(0x1234560), s));
  SAY(cuEventQuery(bogus<CUevent>(0x1234560)));
  SAY(cuEventDestroy(nullptr));
  SAY(cuStreamDestroy(nullptr));
  SAY(cuStreamDestroy(CU_STREAM_LEGACY));
  SAY(cuEventDestroy(e));
  SAY(cuEventDestroy(f));
  SAY(cuStreamDestroy(high));
  SAY(cuStreamDestroy(s));
}

void images(const std::vector<char>& image) {
  CUmodule m = nullptr;
  CUlibrary l = nullptr;
  CUfunction f = nullptr;
  CUkernel k = nullptr;
  CUdeviceptr p = 0;
  size_t bytes = 0;
  SAY(cuModuleLoadData(&m, "this is no image"));
  SAY(cuModuleLoadData(&m, ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry k() { frobnicate; }"));
  SAY(cuModuleLoadData(nullptr, image.data()));
  SAY(cuModuleLoadData(&m, nullptr));
  SAY(cuModuleLoad(&m, "/nonexistent/file.cubin"));
  SAY(cuModuleLoadData(&m, image.data()));
  SAY(cuModuleGetFunction(&f, m, "add_one"));
  CUfunction none = f;
  SAY(cuModuleGetFunction(&none, m, "no_such_kernel"));
  std::printf("function after a failed look-up: %s\n", none == nullptr ? "null" : none == f ? "untouched" : "else");
  none = f;
  SAY(cuModuleGetFunction(&none, m, ""));
  std::printf("function after an empty name: %s\n", none == nullptr ? "null" : none == f ? "untouched" : "else");
  SAY(cuModuleGetFunction(nullptr, m, "add_one"));
  SAY(cuModuleGetGlobal(&p, &bytes, m, "table"));
  std::printf("table bytes %zu\n", bytes);
  SAY(cuModuleGetGlobal(&p, &bytes, m, "no_such_variable"));
  SAY(cuModuleGetGlobal(nullptr, &bytes, m, "table"));
  SAY(cuLibraryLoadData(&l, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  SAY(cuLibraryGetKernel(&k, l, "add_one"));
  SAY(cuLibraryGetKernel(&k, l, "no_such_kernel"));
  size_t offset = 0, size = 0;
  SAY(cuKernelGetParamInfo(k, 1, &offset, &size));
  std::printf("parameter 1: offset %zu size %zu\n", offset, size);
  SAY(cuKernelGetParamInfo(k, 9, &offset, &size));
  SAY(cuFuncGetParamInfo(f, 0, &offset, &size));
  int v = 0;
  SAY(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
  std::printf("threads per block %d\n", v);
  SAY(cuFuncGetAttribute(&v, static_cast<CUfunction_attribute>(99), f));
  SAY(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr));
  SAY(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 * 1024));
  SAY(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024 * 1024));
  SAY(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 3));
  SAY(cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k, 0));
  SAY(cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k, 99));
  unsigned count = 0;
  SAY(cuModuleGetFunctionCount(&count, m));
  std::printf("functions %u\n", count);
  SAY(cuLibraryUnload(l));
  SAY(cuModuleUnload(m));
  SAY(cuModuleUnload(nullptr));
}

void launches(const std::vector<char>& image) {
  CUmodule m = nullptr;
  CUfunction f = nullptr, big = nullptr;
  CUdeviceptr p = 0;
  int n = 64;
  cuModuleLoadData(&m, image.data());
  cuModuleGetFunction(&f, m, "add_one");
  cuModuleGetFunction(&big, m, "many_parameters");
  cuMemAlloc(&p, 4096);
  cuMemsetD32(p, 5, 1024);
  void* arguments[] = {&p, &n};
  SAY(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  SAY(cuCtxSynchronize());
  SAY(cuLaunchKernel(f, 0, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  SAY(cuLaunchKernel(f, 1, 1, 1, 0, 1, 1, 0, nullptr, arguments, nullptr));
  SAY(cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, nullptr, arguments, nullptr));
  SAY(cuLaunchKernel(f, 1, 1, 1, 1, 1, 65, 0, nullptr, arguments, nullptr));
  SAY(cuLaunchKernel(f, 1, 70000, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  SAY(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 1 << 20, nullptr, arguments, nullptr));
  SAY(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, bogus<CUstream>(0x1234560), arguments, nullptr));
  SAY(cuLaunchKernel(nullptr, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  SAY(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr));
  struct { CUdeviceptr p; int n; } packed{p, n};
  size_t bytes = sizeof packed.p + sizeof packed.n;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  SAY(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra));
  SAY(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, extra));
  SAY(cuLaunchCooperativeKernel(f, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments));
  SAY(cuLaunchCooperativeKernel(f, 1000000, 1, 1, 1024, 1, 1, 0, nullptr, arguments));
  std::vector<int> out(64);
  SAY(cuMemcpyDtoH(out.data(), p, 256));
  std::printf("value %d\n", out[63]);
  std::vector<int> values(70);
  std::vector<void*> places{&p};
  for (int i = 0; i < 64; ++i) values[i] = i * i;
  for (int i = 0; i < 64; ++i) places.push_back(&values[i]);
  SAY(cuLaunchKernel(big, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, places.data(), nullptr));
  SAY(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  int sum = 0;
  SAY(cuMemcpyDtoH(&sum, p, 4));
  std::printf("sum of 64 parameters %d\n", sum);
  int blocks = 0;
  SAY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 256, 0));
  SAY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 0, 0));
  SAY(cuOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, f, 256, 0));
  cuMemFree(p);
  cuModuleUnload(m);
}

void contexts() {
  CUcontext a = nullptr, now = nullptr, popped = nullptr;
  cuCtxGetCurrent(&now);
  SAY(cuCtxCreate(&a, nullptr, 0, 0));
  CUcontext current = nullptr;
  cuCtxGetCurrent(&current);
  std::printf("created is current %d\n", current == a);
  unsigned version = 0, flags = 0;
  size_t limit = 0;
  SAY(cuCtxGetApiVersion(a, &version));
  SAY(cuCtxGetFlags(&flags));
  SAY(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
  SAY(cuCtxGetLimit(&limit, static_cast<CUlimit>(99)));
  SAY(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20));
  SAY(cuCtxPushCurrent(now));
  SAY(cuCtxPopCurrent(&popped));
  std::printf("popped what was pushed %d\n", popped == now);
  CUdeviceptr p = 0;
  SAY(cuMemAlloc(&p, 64));
  SAY(cuCtxDestroy(a));
  cuCtxGetCurrent(&current);
  std::printf("after destroy: previous is current %d\n", current == now);
  SAY(cuMemFree(p));
  SAY(cuCtxSetCurrent(now));
  CUresult other = CUDA_SUCCESS;
  CUdeviceptr q = 0;
  std::thread([&] { other = cuMemAlloc(&q, 64); }).join();
  say("cuMemAlloc on a new thread", other);
}

void fault(const std::vector<char>& image) {
  CUmodule m = nullptr;
  CUfunction wild = nullptr;
  CUdeviceptr p = 0;
  cuModuleLoadData(&m, image.data());
  SAY(cuModuleGetFunction(&wild, m, "write_wild"));
  SAY(cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  SAY(cuCtxSynchronize());
  SAY(cuCtxSynchronize());
  SAY(cuMemAlloc(&p, 16));
  SAY(cuStreamQuery(nullptr));
  CUcontext c = nullptr;
  SAY(cuCtxGetCurrent(&c));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: return_codes IMAGE [FILE WITH CALLS TO LEAVE OUT]\n");
    return 2;
  }
  if (argc > 2) {
    std::ifstream names(argv[2]);
    for (std::string line; std::getline(names, line);) left_out.insert(line);
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 4096);  // a crash natively must still show the call before it
  const std::vector<char> image = read_file(argv[1]);
  before_init();
  SAY(cuInit(0));
  devices();
  without_context();
  inactive_primary();
  CUcontext primary = nullptr;
  SAY(cuDevicePrimaryCtxRetain(&primary, 0));
  SAY(cuCtxSetCurrent(primary));
  memory();
  pointers();
  streams_and_events();
  images(image);
  launches(image);
  contexts();
  fault(image);
  SAY(cuDevicePrimaryCtxReset(0));
  SAY(cuDevicePrimaryCtxRelease(0));
  std::printf("DONE\n");
  return 0;
}
