// SPDX-License-Identifier: Apache-2.0
#include "bench/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <stdexcept>

namespace gpuwire::bench {
namespace {

constexpr const char* empty_kernel = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry empty()\n{\n  ret;\n}\n";

template <class Function>
void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(fmt::format("libcuda.so.1 has no {}", name));
}

}  // namespace

// cuda.h renames functions to their newest version; the expansion gives the symbol.
#define GPUWIRE_BENCH_SYMBOL_(name) #name
#define GPUWIRE_BENCH_SYMBOL(name) GPUWIRE_BENCH_SYMBOL_(name)
#define GPUWIRE_BENCH_FUNCTIONS(USE)                                                                                  \
  USE(init, cuInit) USE(device_get, cuDeviceGet) USE(device_name, cuDeviceGetName)                                    \
  USE(retain, cuDevicePrimaryCtxRetain) USE(set_current, cuCtxSetCurrent) USE(synchronise, cuCtxSynchronize)          \
  USE(load, cuModuleLoadData) USE(get_function, cuModuleGetFunction) USE(launch, cuLaunchKernel)                      \
  USE(stream_create, cuStreamCreate) USE(event_create, cuEventCreate) USE(event_record, cuEventRecord)                \
  USE(allocate, cuMemAlloc) USE(memory_info, cuMemGetInfo) USE(set_async, cuMemsetD32Async)                           \
  USE(to_device, cuMemcpyHtoD) USE(from_device, cuMemcpyDtoH) USE(error_name, cuGetErrorName)

struct driver::functions {
#define GPUWIRE_BENCH_MEMBER(member, name) decltype(&::name) member = nullptr;
  GPUWIRE_BENCH_FUNCTIONS(GPUWIRE_BENCH_MEMBER)
#undef GPUWIRE_BENCH_MEMBER

  functions() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) throw std::runtime_error(fmt::format("no driver library: {}", dlerror()));
#define GPUWIRE_BENCH_FIND(member, name) find(library, member, GPUWIRE_BENCH_SYMBOL(name));
    GPUWIRE_BENCH_FUNCTIONS(GPUWIRE_BENCH_FIND)
#undef GPUWIRE_BENCH_FIND
  }

  void check(CUresult result, const char* what) const {
    if (result == CUDA_SUCCESS) return;
    const char* name = nullptr;
    if (error_name(result, &name) != CUDA_SUCCESS) name = "unknown error";
    throw std::runtime_error(fmt::format("{}: {} ({})", what, name, static_cast<int>(result)));
  }
};

#define GPUWIRE_BENCH_CALL(member, ...) functions_->check(functions_->member(__VA_ARGS__), #member)

driver::driver() {
  static const functions loaded;
  functions_ = &loaded;
  GPUWIRE_BENCH_CALL(init, 0);
  GPUWIRE_BENCH_CALL(device_get, &device_, 0);
  GPUWIRE_BENCH_CALL(retain, &context_, device_);
  GPUWIRE_BENCH_CALL(set_current, context_);
  GPUWIRE_BENCH_CALL(load, &module_, empty_kernel);
  GPUWIRE_BENCH_CALL(get_function, &empty_, module_, "empty");
  GPUWIRE_BENCH_CALL(stream_create, &stream_, CU_STREAM_NON_BLOCKING);
  GPUWIRE_BENCH_CALL(event_create, &event_, CU_EVENT_DISABLE_TIMING);
  GPUWIRE_BENCH_CALL(allocate, &small_, 4096);
}

std::string driver::device_name() const {
  char name[256] = "";
  GPUWIRE_BENCH_CALL(device_name, name, sizeof(name), device_);
  return name;
}

std::string driver::library_path() const {
  Dl_info information{};
  return dladdr(reinterpret_cast<void*>(functions_->init), &information) != 0 ? information.dli_fname : "libcuda.so.1";
}

double driver::called_us() {
  std::size_t available = 0, total = 0;
  const auto begin = std::chrono::steady_clock::now();
  const CUresult result = functions_->memory_info(&available, &total);
  const auto end = std::chrono::steady_clock::now();
  functions_->check(result, "cuMemGetInfo");
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

void driver::synchronise() { GPUWIRE_BENCH_CALL(synchronise); }

void driver::launch() { GPUWIRE_BENCH_CALL(launch, empty_, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr); }

void driver::set_memory() { GPUWIRE_BENCH_CALL(set_async, small_, 7, 1, stream_); }

void driver::record_event() { GPUWIRE_BENCH_CALL(event_record, event_, stream_); }

void driver::reserve(std::size_t bytes) { GPUWIRE_BENCH_CALL(allocate, &large_, bytes); }

void driver::copy_to_device(const void* source, std::size_t bytes) { GPUWIRE_BENCH_CALL(to_device, large_, source, bytes); }

void driver::copy_from_device(void* target, std::size_t bytes) { GPUWIRE_BENCH_CALL(from_device, target, large_, bytes); }

}  // namespace gpuwire::bench
