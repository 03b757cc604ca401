// SPDX-License-Identifier: Apache-2.0
// What belongs to the machine of the program, or to systems that cannot reach over a network.
// Arguments are checked as the driver checks them; then comes the code that a driver gives where
// the thing is not possible.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shim/contexts.hpp"
#include "shim/devices.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"

namespace gpuwire::shim {
namespace {

// ---- core dumps: none is made, and it says so ----

constexpr std::size_t path_bytes = 1024;

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return "localhost";
  return name;
}

// The value that an attribute has where nobody changed it.
template <class Give>
CUresult core_dump_value(CUcoredumpSettings attribute, Give&& give) {
  const std::string who = host_name() + "." + std::to_string(::getpid());
  switch (attribute) {
    case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    case CU_COREDUMP_LIGHTWEIGHT:
    case CU_COREDUMP_ENABLE_USER_TRIGGER: {
      const bool off = false;
      return give(&off, sizeof off, sizeof off);
    }
    case CU_COREDUMP_TRIGGER_HOST: {
      const bool on = true;
      return give(&on, sizeof on, sizeof on);
    }
    case CU_COREDUMP_GENERATION_FLAGS: {
      const unsigned flags = CU_COREDUMP_DEFAULT_FLAGS;
      return give(&flags, sizeof flags, sizeof flags);
    }
    case CU_COREDUMP_FILE: {
      const std::string path = "core.cuda." + who;
      return give(path.c_str(), path.size() + 1, path_bytes);
    }
    case CU_COREDUMP_PIPE: {
      const std::string path = "corepipe.cuda." + who;
      return give(path.c_str(), path.size() + 1, path_bytes);
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult get_core_dump(CUcoredumpSettings attribute, void* value, std::size_t* size) {
  if (size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return core_dump_value(
      attribute, [&](const void* from, std::size_t bytes, std::size_t expected) -> CUresult {
        if (value != nullptr) {
          if (*size < bytes) return CUDA_ERROR_INVALID_VALUE;
          std::memcpy(value, from, bytes);
        }
        *size = value != nullptr ? bytes : expected;
        return CUDA_SUCCESS;
      });
}

// The dump would be a file on the server, written with the server's rights.
CUresult set_core_dump(CUcoredumpSettings attribute, const void* value, const std::size_t* size) {
  if (value == nullptr || size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return core_dump_value(
      attribute, [](const void*, std::size_t, std::size_t) { return CUDA_ERROR_NOT_PERMITTED; });
}

// ---- checkpoints ----

// What the driver says of a process that is not there; one that is there cannot be checkpointed.
CUresult checkpoint(int pid) {
  if (pid <= 0 || (::kill(pid, 0) != 0 && errno == ESRCH)) return CUDA_ERROR_OPERATING_SYSTEM;
  return CUDA_ERROR_NOT_SUPPORTED;
}

// ---- notifications of a device ----

struct notification {
  CUdevice device = 0;
  CUasyncCallback function = nullptr;
  void* data = nullptr;
};

struct notifications {
  std::mutex mutex;
  std::vector<std::unique_ptr<notification>> list;
};

notifications& registered() {
  static auto* the_notifications = new notifications;
  return *the_notifications;
}

// No graphics resource, external memory or semaphore can be brought here, so every handle of one is
// wrong.
CUresult no_such_handle() {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  return CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

namespace custom {

CUresult cuCoredumpGetAttribute(CUcoredumpSettings attrib, void* value, std::size_t* size) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  return get_core_dump(attrib, value, size);
}
CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void* value, std::size_t* size) {
  return get_core_dump(attrib, value, size);
}
CUresult cuCoredumpSetAttribute(CUcoredumpSettings attrib, void* value, std::size_t* size) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  return set_core_dump(attrib, value, size);
}
CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void* value, std::size_t* size) {
  return set_core_dump(attrib, value, size);
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int*) {
  return checkpoint(pid);
}
CUresult cuCheckpointProcessGetState(int pid, CUprocessState*) {
  return checkpoint(pid);
}
CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs*) {
  return checkpoint(pid);
}
CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs*) {
  return checkpoint(pid);
}
CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs*) {
  return checkpoint(pid);
}
CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs*) {
  return checkpoint(pid);
}

// The only notification that there is tells of a memory budget, which an administrator sets for
// processes of the server.
CUresult cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
                                           void* userData, CUasyncCallbackHandle* callback) {
  if (find_device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (callbackFunc == nullptr || callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto entry = std::make_unique<notification>(notification{device, callbackFunc, userData});
  notifications& n = registered();
  std::lock_guard lock(n.mutex);
  *callback = reinterpret_cast<CUasyncCallbackHandle>(entry.get());
  n.list.push_back(std::move(entry));
  return CUDA_SUCCESS;
}

CUresult cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle callback) {
  if (find_device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  notifications& n = registered();
  std::lock_guard lock(n.mutex);
  const auto found = std::find_if(n.list.begin(), n.list.end(), [&](const auto& one) {
    return reinterpret_cast<CUasyncCallbackHandle>(one.get()) == callback && one->device == device;
  });
  if (found == n.list.end()) return CUDA_ERROR_INVALID_VALUE;
  n.list.erase(found);
  return CUDA_SUCCESS;
}

// The driver itself has returned this since CUDA 12.
CUresult cuProfilerInitialize(const char*, const char*, CUoutput_mode) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

// As on a device whose attribute says that writes of network cards cannot be flushed: none comes
// from here.
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
      (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
       scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_NOT_SUPPORTED;
}

// ---- graphics ----

CUresult cuGraphicsUnregisterResource(CUgraphicsResource) {
  return no_such_handle();
}
CUresult cuGraphicsSubResourceGetMappedArray(CUarray*, CUgraphicsResource, unsigned int,
                                             unsigned int) {
  return no_such_handle();
}
CUresult cuGraphicsResourceGetMappedMipmappedArray(CUmipmappedArray*, CUgraphicsResource) {
  return no_such_handle();
}
CUresult cuGraphicsResourceGetMappedPointer(CUdeviceptr_v1*, unsigned int*, CUgraphicsResource) {
  return no_such_handle();
}
CUresult cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr*, std::size_t*, CUgraphicsResource) {
  return no_such_handle();
}
CUresult cuGraphicsResourceSetMapFlags(CUgraphicsResource, unsigned int) {
  return no_such_handle();
}
CUresult cuGraphicsResourceSetMapFlags_v2(CUgraphicsResource, unsigned int) {
  return no_such_handle();
}

namespace {
CUresult map_resources(unsigned count, const CUgraphicsResource* resources, CUstream stream) {
  if (const auto target = find_stream(stream); target.result != CUDA_SUCCESS) return target.result;
  if (count == 0 || resources == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_INVALID_HANDLE;
}
}  // namespace

CUresult cuGraphicsMapResources(unsigned int count, CUgraphicsResource* resources,
                                CUstream hStream) {
  return map_resources(count, resources, hStream);
}
CUresult cuGraphicsUnmapResources(unsigned int count, CUgraphicsResource* resources,
                                  CUstream hStream) {
  return map_resources(count, resources, hStream);
}

// ---- external memory and semaphores ----

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr*, CUexternalMemory,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC*) {
  return no_such_handle();
}
CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray*, CUexternalMemory,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC*) {
  return no_such_handle();
}
CUresult cuDestroyExternalMemory(CUexternalMemory) {
  return no_such_handle();
}
CUresult cuDestroyExternalSemaphore(CUexternalSemaphore) {
  return no_such_handle();
}

namespace {
CUresult semaphores(const CUexternalSemaphore* list, const void* parameters, unsigned count,
                    CUstream stream) {
  if (const auto target = find_stream(stream); target.result != CUDA_SUCCESS) return target.result;
  if (list == nullptr || parameters == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_INVALID_HANDLE;
}
}  // namespace

CUresult cuSignalExternalSemaphoresAsync(const CUexternalSemaphore* extSemArray,
                                         const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS* paramsArray,
                                         unsigned int numExtSems, CUstream stream) {
  return semaphores(extSemArray, paramsArray, numExtSems, stream);
}
CUresult cuWaitExternalSemaphoresAsync(const CUexternalSemaphore* extSemArray,
                                       const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS* paramsArray,
                                       unsigned int numExtSems, CUstream stream) {
  return semaphores(extSemArray, paramsArray, numExtSems, stream);
}

}  // namespace custom
}  // namespace gpuwire::shim
