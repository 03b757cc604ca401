// SPDX-License-Identifier: Apache-2.0
// Initialisation, version, look-up of entry points, profiler control.
#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "context.hpp"
#include "device.hpp"
#include "guard.hpp"
#include "per_thread.hpp"

extern "C" {
// Tells the daemon that the library it has loaded is the soft GPU.
__attribute__((visibility("default"))) extern const char* const gpuwire_softcuda_v1;
const char* const gpuwire_softcuda_v1 = "gpuwire soft GPU 1";
}

namespace gpuwire::softgpu {

std::atomic<process_state> driver_state{process_state::fresh};
thread_local bool inside_host_function = false;

namespace {

constexpr int driver_version = 13000;

// Threads do not survive a fork, and neither does the driver: the child's calls return 3, as
// natively.
void in_child() {
  if (driver_state == process_state::ready) driver_state = process_state::forked;
}

// The release from which a base name means another revision than its highest one (which is meant
// otherwise).
struct revision {
  const char* base;
  int since;
  const char* symbol;
};
constexpr revision revisions[] = {
    {"cuCtxCreate", 2000, "cuCtxCreate"},
    {"cuCtxCreate", 3020, "cuCtxCreate_v2"},
    {"cuCtxCreate", 11040, "cuCtxCreate_v3"},
    {"cuCtxCreate", 12050, "cuCtxCreate_v4"},
    {"cuCtxGetDevice", 2000, "cuCtxGetDevice"},
    {"cuCtxGetDevice", 13000, "cuCtxGetDevice_v2"},
    {"cuCtxSynchronize", 2000, "cuCtxSynchronize"},
    {"cuCtxSynchronize", 13000, "cuCtxSynchronize_v2"},
    {"cuEventElapsedTime", 2000, "cuEventElapsedTime"},
    {"cuEventElapsedTime", 12080, "cuEventElapsedTime_v2"},
    {"cuStreamGetCtx", 9020, "cuStreamGetCtx"},
    {"cuStreamGetCtx", 12050, "cuStreamGetCtx_v2"},
    {"cuStreamGetCaptureInfo", 10010, "cuStreamGetCaptureInfo"},
    {"cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"},
    {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
    {"cuMemcpyBatchAsync", 12080, "cuMemcpyBatchAsync"},
    {"cuMemcpyBatchAsync", 13000, "cuMemcpyBatchAsync_v2"},
    {"cuMemcpy3DBatchAsync", 12080, "cuMemcpy3DBatchAsync"},
    {"cuMemcpy3DBatchAsync", 13000, "cuMemcpy3DBatchAsync_v2"},
    {"cuGraphAddDependencies", 10000, "cuGraphAddDependencies"},
    {"cuGraphAddDependencies", 12030, "cuGraphAddDependencies_v2"},
    {"cuGraphAddKernelNode", 10000, "cuGraphAddKernelNode"},
    {"cuGraphAddKernelNode", 12000, "cuGraphAddKernelNode_v2"},
    {"cuGraphAddNode", 12020, "cuGraphAddNode"},
    {"cuGraphAddNode", 12030, "cuGraphAddNode_v2"},
    {"cuGraphExecKernelNodeSetParams", 10010, "cuGraphExecKernelNodeSetParams"},
    {"cuGraphExecKernelNodeSetParams", 12000, "cuGraphExecKernelNodeSetParams_v2"},
    {"cuGraphExecUpdate", 10020, "cuGraphExecUpdate"},
    {"cuGraphExecUpdate", 12000, "cuGraphExecUpdate_v2"},
    {"cuGraphGetEdges", 10000, "cuGraphGetEdges"},
    {"cuGraphGetEdges", 12030, "cuGraphGetEdges_v2"},
    {"cuGraphInstantiate", 10000, "cuGraphInstantiate"},
    {"cuGraphInstantiate", 11000, "cuGraphInstantiate_v2"},
    {"cuGraphKernelNodeGetParams", 10000, "cuGraphKernelNodeGetParams"},
    {"cuGraphKernelNodeGetParams", 12000, "cuGraphKernelNodeGetParams_v2"},
    {"cuGraphKernelNodeSetParams", 10000, "cuGraphKernelNodeSetParams"},
    {"cuGraphKernelNodeSetParams", 12000, "cuGraphKernelNodeSetParams_v2"},
    {"cuGraphNodeGetDependencies", 10000, "cuGraphNodeGetDependencies"},
    {"cuGraphNodeGetDependencies", 12030, "cuGraphNodeGetDependencies_v2"},
    {"cuGraphNodeGetDependentNodes", 10000, "cuGraphNodeGetDependentNodes"},
    {"cuGraphNodeGetDependentNodes", 12030, "cuGraphNodeGetDependentNodes_v2"},
    {"cuGraphRemoveDependencies", 10000, "cuGraphRemoveDependencies"},
    {"cuGraphRemoveDependencies", 12030, "cuGraphRemoveDependencies_v2"},
    {"cuStreamBeginCapture", 10000, "cuStreamBeginCapture"},
    {"cuStreamBeginCapture", 10010, "cuStreamBeginCapture_v2"},
    {"cuStreamUpdateCaptureDependencies", 11030, "cuStreamUpdateCaptureDependencies"},
    {"cuStreamUpdateCaptureDependencies", 12030, "cuStreamUpdateCaptureDependencies_v2"},
    {"cuGetProcAddress", 11030, "cuGetProcAddress"},
    {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
};

void* own_symbol(const std::string& name) {
  static void* const self = [] {
    Dl_info information{};
    if (dladdr(reinterpret_cast<void*>(&in_child), &information) == 0)
      return static_cast<void*>(nullptr);
    return dlopen(information.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return self == nullptr ? nullptr : dlsym(self, name.c_str());
}

// Null for a name that is not exported. Names with a revision or a stream suffix are not base
// names: they are unknown, as natively.
void* entry_point(const char* name, int version, bool per_thread) {
  if (std::strncmp(name, "cu", 2) != 0 || std::strpbrk(name, "_") != nullptr) return nullptr;
  const char* chosen = nullptr;
  bool listed = false;
  for (const auto& one : revisions) {
    if (std::strcmp(one.base, name) != 0) continue;
    listed = true;
    if (version >= one.since) chosen = one.symbol;
  }
  if (listed && chosen == nullptr) return nullptr;
  std::string symbol = listed ? chosen : std::string(name) + "_v2";
  void* found = own_symbol(symbol);
  if (found == nullptr && !listed) {
    symbol = name;
    found = own_symbol(symbol);
  }
  void* variant = per_thread ? per_thread_entry(symbol) : nullptr;
  return variant != nullptr ? variant : found;
}

constexpr cuuint64_t per_thread_flag = 2;

}  // namespace
}  // namespace gpuwire::softgpu

using namespace gpuwire::softgpu;

CUresult cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  static std::mutex* mutex = new std::mutex;
  if (driver_state == process_state::ready) return CUDA_SUCCESS;
  if (driver_state == process_state::forked) return CUDA_ERROR_NOT_INITIALIZED;
  return guarded([] {
    std::lock_guard lock(*mutex);
    if (driver_state == process_state::ready) return CUDA_SUCCESS;
    if (!make_devices()) return CUDA_ERROR_INVALID_VALUE;
    if (devices().empty()) return CUDA_ERROR_NO_DEVICE;
    pthread_atfork(nullptr, nullptr, in_child);
    driver_state = process_state::ready;
    return CUDA_SUCCESS;
  });
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = driver_version;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char* name, void** out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  return guarded([&] {
    if (name == nullptr || out == nullptr || version > driver_version || flags > per_thread_flag) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *out = entry_point(name, version, flags == per_thread_flag);
    if (status != nullptr) {
      *status =
          *out == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuGetProcAddress(const char* name, void** out, int version, cuuint64_t flags) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  void* found = nullptr;
  const CUresult result = cuGetProcAddress_v2(name, &found, version, flags, nullptr);
  if (result != CUDA_SUCCESS) return result;
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = found;
  return CUDA_SUCCESS;
}

CUresult cuProfilerStart() {
  return with_context([](context&) { return CUDA_SUCCESS; });
}

CUresult cuProfilerStop() {
  return with_context([](context&) { return CUDA_SUCCESS; });
}
