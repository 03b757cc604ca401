// SPDX-License-Identifier: Apache-2.0
// Initialising, versions, what is not there, sets of events in which nothing ever happens.
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "soft_nvml.hpp"

using namespace gpuwire::nvml;
using namespace gpuwire::softgpu;

namespace {

struct event_sets {
  std::mutex mutex;
  std::set<void*> live;
};
event_sets& sets() {
  static auto* all = new event_sets;
  return *all;
}

std::int32_t wait(void* set, const void* data, std::uint32_t timeout_ms) {
  {
    std::lock_guard lock(sets().mutex);
    if (sets().live.count(set) == 0 || data == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
  return NVML_ERROR_TIMEOUT;
}

std::int32_t none(std::uint32_t* count) {
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

}  // namespace

namespace gpuwire::softgpu {

std::int32_t give_text(const std::string& text, char* to, std::uint32_t room) {
  if (to == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (room < text.size() + 1) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

}  // namespace gpuwire::softgpu

SOFT_NVML gpuwire_soft_nvml_v1() {
  return 1;
}

SOFT_NVML nvmlInit_v2() {
  nvml_devices();
  return NVML_SUCCESS;
}

SOFT_NVML nvmlSystemGetDriverVersion(char* version, std::uint32_t length) {
  return give_text(GPUWIRE_VERSION, version, length);
}

SOFT_NVML nvmlSystemGetNVMLVersion(char* version, std::uint32_t length) {
  return give_text(std::to_string(CUDA_VERSION / 1000) + "." GPUWIRE_VERSION, version, length);
}

SOFT_NVML nvmlSystemGetCudaDriverVersion_v2(std::int32_t* version) {
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *version = CUDA_VERSION;
  return NVML_SUCCESS;
}

SOFT_NVML nvmlSystemGetCudaDriverVersion(std::int32_t* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

SOFT_NVML nvmlUnitGetCount(std::uint32_t* count) {
  return none(count);
}

SOFT_NVML nvmlGetExcludedDeviceCount(std::uint32_t* count) {
  return none(count);
}

SOFT_NVML nvmlEventSetCreate(void** set) {
  if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  std::lock_guard lock(sets().mutex);
  *set = new char;
  sets().live.insert(*set);
  return NVML_SUCCESS;
}

SOFT_NVML nvmlEventSetFree(void* set) {
  std::lock_guard lock(sets().mutex);
  if (sets().live.erase(set) == 0) return NVML_ERROR_INVALID_ARGUMENT;
  delete static_cast<char*>(set);
  return NVML_SUCCESS;
}

SOFT_NVML nvmlEventSetWait(void* set, nvmlEventData_t* data, std::uint32_t timeout_ms) {
  return wait(set, data, timeout_ms);
}

SOFT_NVML nvmlEventSetWait_v2(void* set, nvmlEventData_t* data, std::uint32_t timeout_ms) {
  return wait(set, data, timeout_ms);
}
