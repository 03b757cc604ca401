// SPDX-License-Identifier: Apache-2.0
// What the files of the soft GPU's NVML share. A device handle is the address of an element of a
// fixed list, so that every other value is recognised. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/generated/nvml/types.hpp"

#define SOFT_NVML extern "C" __attribute__((visibility("default"))) std::int32_t

namespace gpuwire::softgpu {

struct nvml_device {
  unsigned ordinal = 0;
};

// The devices, made by the first call.
const std::vector<nvml_device>& nvml_devices();
const nvml_device* nvml_device_of(const void* handle);  // null: no handle
std::string nvml_uuid(const nvml_device& d);            // "GPU-67707577-..."
std::string nvml_bus_id(const nvml_device& d);          // "00000000:01:00.0"

// Copies a text as NVML does; NVML_ERROR_INSUFFICIENT_SIZE when it does not fit.
std::int32_t give_text(const std::string& text, char* to, std::uint32_t room);

struct host_memory {
  std::uint64_t available = 0;
};
host_memory read_host_memory();
// Share of the machine's processors that was busy since the last call, in percent.
std::uint32_t processor_load();

}  // namespace gpuwire::softgpu
