// SPDX-License-Identifier: Apache-2.0
// Finding devices, and what can honestly be said of one: who it is, and how much of the machine is
// in use. Everything else is not exported, and therefore not supported.
#include <sched.h>
#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "daemon/softgpu/identity.hpp"
#include "soft_nvml.hpp"

using namespace gpuwire::nvml;
using namespace gpuwire::softgpu;

namespace gpuwire::softgpu {

const std::vector<nvml_device>& nvml_devices() {
  static const auto* const all = [] {
    auto* made = new std::vector<nvml_device>;
    for (unsigned i = 0; i < devices_wanted().value_or(0); ++i) made->push_back({i});
    return made;
  }();
  return *all;
}

const nvml_device* nvml_device_of(const void* handle) {
  for (const auto& d : nvml_devices())
    if (&d == handle) return &d;
  return nullptr;
}

std::string nvml_uuid(const nvml_device& d) {
  const auto bytes = device_uuid(d.ordinal);
  std::string text = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", bytes[i]);
    text += two;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

std::string nvml_bus_id(const nvml_device& d) {
  char text[24];
  std::snprintf(text, sizeof text, "00000000:%02X:00.0", device_bus(d.ordinal));
  return text;
}

}  // namespace gpuwire::softgpu

namespace {

// The common shape: a device and one place for the answer.
template <class Place, class Body>
std::int32_t of_device(void* handle, Place* place, Body&& body) {
  const auto* d = nvml_device_of(handle);
  if (d == nullptr || place == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return body(*d);
}

template <class Place, class Value>
std::int32_t constant(void* handle, Place* place, Value value) {
  return of_device(handle, place, [&](const nvml_device&) {
    *place = static_cast<Place>(value);
    return NVML_SUCCESS;
  });
}

std::int32_t find(const char* wanted, void** device, bool (*is)(const nvml_device&, const char*)) {
  if (wanted == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (const auto& d : nvml_devices()) {
    if (!is(d, wanted)) continue;
    *device = const_cast<nvml_device*>(&d);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

bool is_on_bus(const nvml_device& d, const char* wanted) {
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(wanted, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
    domain = function = 0;
    if (std::sscanf(wanted, "%x:%x.%x", &bus, &slot, &function) < 2) return false;
  }
  return domain == 0 && slot == 0 && function == 0 && bus == device_bus(d.ordinal);
}

struct usage {
  std::uint64_t total = 0, free = 0, used = 0;
};
// The device's memory is the machine's: what the machine cannot give is in use.
usage memory_in_use() {
  usage u;
  u.total = device_memory_bytes();
  u.free = std::min(u.total, read_host_memory().available);
  u.used = u.total - u.free;
  return u;
}

std::int32_t pci_info(void* device, nvmlPciInfo_t* pci) {
  return of_device(device, pci, [&](const nvml_device& d) {
    *pci = {};
    std::snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0",
                  device_bus(d.ordinal));
    std::snprintf(pci->busId, sizeof pci->busId, "%s", nvml_bus_id(d).c_str());
    pci->bus = device_bus(d.ordinal);
    return NVML_SUCCESS;
  });
}

}  // namespace

SOFT_NVML nvmlDeviceGetCount_v2(std::uint32_t* count) {
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<std::uint32_t>(nvml_devices().size());
  return NVML_SUCCESS;
}

SOFT_NVML nvmlDeviceGetCount(std::uint32_t* count) {
  return nvmlDeviceGetCount_v2(count);
}

SOFT_NVML nvmlDeviceGetHandleByIndex_v2(std::uint32_t index, void** device) {
  if (device == nullptr || index >= nvml_devices().size()) return NVML_ERROR_INVALID_ARGUMENT;
  *device = const_cast<nvml_device*>(&nvml_devices()[index]);
  return NVML_SUCCESS;
}

SOFT_NVML nvmlDeviceGetHandleByIndex(std::uint32_t index, void** device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

SOFT_NVML nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  return find(uuid, device, [](const nvml_device& d, const char* wanted) {
    return ::strcasecmp(nvml_uuid(d).c_str(), wanted) == 0;
  });
}

SOFT_NVML nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  return find(bus, device, is_on_bus);
}

SOFT_NVML nvmlDeviceGetHandleByPciBusId(const char* bus, void** device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus, device);
}

SOFT_NVML nvmlDeviceGetIndex(void* device, std::uint32_t* index) {
  return of_device(device, index, [&](const nvml_device& d) {
    *index = d.ordinal;
    return NVML_SUCCESS;
  });
}

SOFT_NVML nvmlDeviceGetMinorNumber(void* device, std::uint32_t* minor) {
  return nvmlDeviceGetIndex(device, minor);
}

SOFT_NVML nvmlDeviceGetName(void* device, char* name, std::uint32_t length) {
  return of_device(device, name,
                   [&](const nvml_device&) { return give_text(device_name, name, length); });
}

SOFT_NVML nvmlDeviceGetUUID(void* device, char* uuid, std::uint32_t length) {
  return of_device(device, uuid,
                   [&](const nvml_device& d) { return give_text(nvml_uuid(d), uuid, length); });
}

SOFT_NVML nvmlDeviceGetPciInfo_v3(void* device, nvmlPciInfo_t* pci) {
  return pci_info(device, pci);
}

SOFT_NVML nvmlDeviceGetPciInfo_v2(void* device, nvmlPciInfo_t* pci) {
  return pci_info(device, pci);
}

SOFT_NVML nvmlDeviceGetPciInfo(void* device, nvmlPciInfo_t* pci) {
  return pci_info(device, pci);
}

SOFT_NVML nvmlDeviceGetMemoryInfo(void* device, nvmlMemory_t* memory) {
  return of_device(device, memory, [&](const nvml_device&) {
    const auto u = memory_in_use();
    *memory = {};
    memory->total = u.total;
    memory->free = u.free;
    memory->used = u.used;
    return NVML_SUCCESS;
  });
}

SOFT_NVML nvmlDeviceGetMemoryInfo_v2(void* device, void* place) {
  auto* memory = static_cast<nvmlMemory_v2_t*>(place);
  return of_device(device, memory, [&](const nvml_device&) -> std::int32_t {
    constexpr std::uint32_t version = sizeof(nvmlMemory_v2_t) | 2u << 24;
    if (memory->version != version) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const auto u = memory_in_use();
    memory->total = u.total;
    memory->reserved = 0;
    memory->free = u.free;
    memory->used = u.used;
    return NVML_SUCCESS;
  });
}

SOFT_NVML nvmlDeviceGetUtilizationRates(void* device, nvmlUtilization_t* rates) {
  return of_device(device, rates, [&](const nvml_device&) {
    const auto u = memory_in_use();
    rates->gpu = processor_load();
    rates->memory = static_cast<std::uint32_t>(u.used * 100 / u.total);
    return NVML_SUCCESS;
  });
}

SOFT_NVML nvmlDeviceGetCudaComputeCapability(void* device, std::int32_t* major,
                                             std::int32_t* minor) {
  if (minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return of_device(device, major, [&](const nvml_device&) {
    *major = device_compute_major;
    *minor = device_compute_minor;
    return NVML_SUCCESS;
  });
}

SOFT_NVML nvmlDeviceGetComputeMode(void* device, std::uint32_t* mode) {
  return constant(device, mode, 0);  // any number of processes
}

SOFT_NVML nvmlDeviceGetBrand(void* device, std::uint32_t* brand) {
  return constant(device, brand, 0);  // unknown
}

SOFT_NVML nvmlDeviceGetMultiGpuBoard(void* device, std::uint32_t* multi) {
  return constant(device, multi, 0);
}

SOFT_NVML nvmlDeviceGetBoardId(void* device, std::uint32_t* board) {
  return of_device(device, board, [&](const nvml_device& d) {
    *board = device_bus(d.ordinal) << 8;
    return NVML_SUCCESS;
  });
}

SOFT_NVML nvmlDeviceIsMigDeviceHandle(void* device, std::uint32_t* is_mig) {
  return constant(device, is_mig, 0);
}

SOFT_NVML nvmlDeviceGetMaxMigDeviceCount(void* device, std::uint32_t* count) {
  return constant(device, count, 0);
}

// Each value says for itself that it is not there.
SOFT_NVML nvmlDeviceGetFieldValues(void* device, std::int32_t count, nvmlFieldValue_t* values) {
  if (count <= 0) return NVML_ERROR_INVALID_ARGUMENT;
  return of_device(device, values, [&](const nvml_device&) {
    for (std::int32_t i = 0; i < count; ++i) values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
  });
}

// All processors are near a device that runs on them.
SOFT_NVML nvmlDeviceGetCpuAffinity(void* device, std::uint32_t words, std::uint64_t* set) {
  return of_device(device, set, [&](const nvml_device&) -> std::int32_t {
    constexpr std::uint32_t bits = 64;
    const auto processors = std::max(1u, std::thread::hardware_concurrency());
    if (words == 0) return NVML_ERROR_INVALID_ARGUMENT;
    std::fill(set, set + words, 0);
    for (std::uint32_t i = 0; i < std::min(processors, words * bits); ++i)
      set[i / bits] |= std::uint64_t{1} << (i % bits);
    return NVML_SUCCESS;
  });
}

SOFT_NVML nvmlDeviceGetTopologyCommonAncestor(void* one, void* other, std::uint32_t* level) {
  constexpr std::uint32_t same_board = 0, same_node = 40;
  if (nvml_device_of(other) == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return constant(one, level, one == other ? same_board : same_node);
}

SOFT_NVML nvmlDeviceOnSameBoard(void* one, void* other, std::int32_t* same) {
  if (nvml_device_of(other) == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return constant(one, same, one == other ? 1 : 0);
}
