// SPDX-License-Identifier: Apache-2.0
// What needs no server, or more than one question: initialising, texts of errors, the private
// table, waiting for events.
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "shim/generated/nvml/custom.hpp"
#include "shim/nvml/question.hpp"

using namespace gpuwire::nvml;

extern "C" GPUWIRE_EXPORT std::int32_t nvmlInitWithFlags(std::uint32_t) {
  try {
    return initialise();
  } catch (const std::exception&) {
    return NVML_ERROR_UNKNOWN;
  }
}

extern "C" GPUWIRE_EXPORT std::int32_t nvmlInit_v2() {
  return nvmlInitWithFlags(0);
}

extern "C" GPUWIRE_EXPORT std::int32_t nvmlInit() {
  return nvmlInitWithFlags(0);
}

extern "C" GPUWIRE_EXPORT std::int32_t nvmlShutdown() {
  return shut_down();
}

// Marks this library, so that a daemon does not take it for the host's own.
extern "C" GPUWIRE_EXPORT std::int32_t gpuwire_nvml_instance_v1() {
  return 1;
}

extern "C" GPUWIRE_EXPORT const char* nvmlErrorString(std::int32_t code) {
  switch (code) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED:
      return "Already Initialized";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_INSUFFICIENT_POWER:
      return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT:
      return "Timeout";
    case NVML_ERROR_IRQ_ISSUE:
      return "Interrupt Request Issue";
    case NVML_ERROR_LIBRARY_NOT_FOUND:
      return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return "Function Not Found";
    case NVML_ERROR_CORRUPTED_INFOROM:
      return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED:
      return "GPU requires reset";
    case NVML_ERROR_OPERATING_SYSTEM:
      return "GPU access blocked by the operating system";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
      return "Driver/library version mismatch";
    case NVML_ERROR_IN_USE:
      return "In use by another client";
    case NVML_ERROR_MEMORY:
      return "Insufficient Memory";
    case NVML_ERROR_NO_DATA:
      return "No data";
    case NVML_ERROR_VGPU_ECC_NOT_SUPPORTED:
      return "The requested vgpu operation is not available on target device";
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
      return "Insufficient resources";
    case NVML_ERROR_FREQ_NOT_SUPPORTED:
      return "Clock frequency not supported";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "Argument version mismatch";
    case NVML_ERROR_DEPRECATED:
      return "Requested functionality has been deprecated";
    case NVML_ERROR_NOT_READY:
      return "Not Ready";
    case NVML_ERROR_GPU_NOT_FOUND:
      return "GPU Not Found";
    case NVML_ERROR_INVALID_STATE:
      return "Invalid State";
    default:
      return "Unknown Error";
  }
}

namespace {

// Whether a device can be watched (nvidia-smi dmon): it is asked before the public functions are,
// which say for each value whether it is there.
std::int32_t can_be_watched(void* device, std::int32_t* answer) {
  if (device == nullptr || answer == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *answer = 1;
  return NVML_SUCCESS;
}

// NVIDIA's own tool asks for one table of private functions; the first word is its size in bytes,
// an empty place a function that is not there, without which the tool does what it can.
struct private_table {
  std::uint64_t bytes = sizeof(private_table);
  const void* before[71] = {};
  std::int32_t (*watch)(void*, std::int32_t*) = can_be_watched;
};
static_assert(offsetof(private_table, watch) == 0x240);

}  // namespace

extern "C" GPUWIRE_EXPORT std::int32_t nvmlInternalGetExportTable(const void** table,
                                                                  const void* id) {
  static const private_table functions;
  static constexpr unsigned char known[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                              0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
  if (table == nullptr || id == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (std::memcmp(id, known, sizeof known) != 0) return NVML_ERROR_FUNCTION_NOT_FOUND;
  *table = &functions;
  return NVML_SUCCESS;
}

namespace gpuwire::nvml::custom {
namespace {

// One question waits this long at most, so that other threads of the process get their turn.
constexpr std::uint32_t slice_ms = 100;

template <class Take>
std::int32_t wait_for_event(const call_number& call, void* set, nvmlEventData_t* data,
                            std::uint32_t timeout_ms, Take&& take) {
  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now()).count();
    const auto slice = static_cast<std::uint32_t>(std::clamp<long long>(left, 0, slice_ms));
    question ask(call);
    ask.handle(set);
    ask.want(data);
    ask.in(slice);
    if (ask.send()) take(ask);
    if (ask.result() != NVML_ERROR_TIMEOUT || left <= slice_ms) return ask.result();
  }
}

// The driver's version as the CUDA library reports it: at most what both were built for.
std::int32_t cuda_version(const call_number& call, std::int32_t* version) {
  question ask(call);
  ask.want(version);
  if (ask.send()) {
    ask.out(version);
    if (ask.result() == NVML_SUCCESS) *version = std::min<std::int32_t>(*version, CUDA_VERSION);
  }
  return ask.result();
}

}  // namespace

std::int32_t nvmlEventSetWait(void* set, nvmlEventData_t* data, std::uint32_t timeoutms) {
  return wait_for_event(calls::nvmlEventSetWait, set, data, timeoutms,
                        [&](question& ask) { ask.out_prefix(data, 24); });
}

std::int32_t nvmlEventSetWait_v2(void* set, nvmlEventData_t* data, std::uint32_t timeoutms) {
  return wait_for_event(calls::nvmlEventSetWait_v2, set, data, timeoutms,
                        [&](question& ask) { ask.out(data); });
}

std::int32_t nvmlSystemGetCudaDriverVersion(std::int32_t* version) {
  return cuda_version(calls::nvmlSystemGetCudaDriverVersion, version);
}

std::int32_t nvmlSystemGetCudaDriverVersion_v2(std::int32_t* version) {
  return cuda_version(calls::nvmlSystemGetCudaDriverVersion_v2, version);
}

// A process of this machine is named by this machine; the server's processes have other numbers.
std::int32_t nvmlSystemGetProcessName(std::uint32_t pid, char* name, std::uint32_t length) {
  if (pid == static_cast<std::uint32_t>(::getpid()) && name != nullptr && length != 0) {
    const auto bytes = ::readlink("/proc/self/exe", name, length - 1);
    if (bytes > 0) {
      name[bytes] = 0;
      return NVML_SUCCESS;
    }
  }
  question ask(calls::nvmlSystemGetProcessName);
  ask.in(pid);
  ask.in(length);
  ask.want(name);
  if (ask.send()) ask.out_text(name, length);
  return ask.result();
}

}  // namespace gpuwire::nvml::custom
