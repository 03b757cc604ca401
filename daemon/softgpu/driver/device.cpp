// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "context.hpp"
#include "guard.hpp"

namespace gpuwire::softgpu {
namespace {

// Leaked: calls during process exit are answered as before.
std::vector<std::unique_ptr<device>>& list() {
  static auto* all = new std::vector<std::unique_ptr<device>>;
  return *all;
}

CUuuid uuid_of(unsigned ordinal) {
  const auto bytes = device_uuid(ordinal);
  CUuuid uuid{};
  std::memcpy(uuid.bytes, bytes.data(), bytes.size());
  return uuid;
}

}  // namespace

std::string device::pci_bus_id() const {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02X:00.0", device_bus(static_cast<unsigned>(ordinal)));
  return text;
}

bool make_devices() {
  const auto count = devices_wanted();
  if (!count) {
    std::fprintf(stderr,
                 "gpuwire soft GPU: GPUWIRE_SOFT_DEVICES is '%s'; give a number from 0 to %u\n",
                 std::getenv("GPUWIRE_SOFT_DEVICES"), devices_max);
    return false;
  }
  for (unsigned ordinal = 0; ordinal < *count; ++ordinal) {
    auto made = std::make_unique<device>();
    made->ordinal = static_cast<CUdevice>(ordinal);
    made->uuid = uuid_of(ordinal);
    made->memory_bytes = device_memory_bytes();
    made->multiprocessors = std::max(1u, std::thread::hardware_concurrency());
    made->primary = context::make(*made, true);
    list().push_back(std::move(made));
  }
  return true;
}

const std::vector<std::unique_ptr<device>>& devices() {
  return list();
}

device& device_of(CUdevice ordinal) {
  require(ordinal >= 0 && static_cast<std::size_t>(ordinal) < list().size(),
          CUDA_ERROR_INVALID_DEVICE);
  return *list()[static_cast<std::size_t>(ordinal)];
}

}  // namespace gpuwire::softgpu

using namespace gpuwire::softgpu;

CUresult cuDeviceGetCount(int* count) {
  return initialised([&] {
    require(count != nullptr);
    *count = static_cast<int>(devices().size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  return initialised([&] {
    require(out != nullptr);
    *out = device_of(ordinal).ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice dev) {
  return initialised([&] {
    device_of(dev);
    require(name != nullptr && bytes > 0);
    std::snprintf(name, static_cast<std::size_t>(bytes), "%s", device_name);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  return initialised([&] {
    auto& on = device_of(dev);
    require(uuid != nullptr);
    *uuid = on.uuid;
    return CUDA_SUCCESS;
  });
}

// LUIDs exist on Windows only; the driver answers so elsewhere.
CUresult cuDeviceGetLuid(char* luid, unsigned int* node_mask, CUdevice dev) {
  return initialised([&] {
    device_of(dev);
    require(luid != nullptr && node_mask != nullptr);
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  return initialised([&] {
    auto& on = device_of(dev);
    require(bytes != nullptr);
    *bytes = on.memory_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice dev) {
  return initialised([&] {
    auto& on = device_of(dev);
    require(value != nullptr);
    auto answer = device_attribute(on, static_cast<int>(attribute));
    require(answer.has_value());
    *value = *answer;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  return initialised([&] {
    device_of(dev);
    require(major != nullptr && minor != nullptr);
    *major = limits::compute_major;
    *minor = limits::compute_minor;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice dev) {
  return initialised([&] {
    auto& on = device_of(dev);
    require(properties != nullptr);
    auto attribute = [&](CUdevice_attribute number) { return *device_attribute(on, number); };
    *properties = {};
    properties->maxThreadsPerBlock = limits::threads_per_block_max;
    for (int axis = 0; axis < 3; ++axis) {
      properties->maxThreadsDim[axis] = static_cast<int>(limits::block_dim_max[axis]);
      properties->maxGridSize[axis] = static_cast<int>(limits::grid_dim_max[axis]);
    }
    properties->sharedMemPerBlock = limits::shared_bytes_per_block;
    properties->totalConstantMemory = limits::constant_bytes;
    properties->SIMDWidth = limits::warp_threads;
    properties->memPitch = attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    properties->regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    properties->clockRate = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    properties->textureAlign = attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* text, int bytes, CUdevice dev) {
  return initialised([&] {
    auto& on = device_of(dev);
    require(text != nullptr && bytes > 0);
    std::snprintf(text, static_cast<std::size_t>(bytes), "%s", on.pci_bus_id().c_str());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* text) {
  return initialised([&] {
    require(dev != nullptr && text != nullptr);
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    const int read = std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function);
    if (read < 3) {
      domain = 0;
      require(std::sscanf(text, "%x:%x.%x", &bus, &slot, &function) >= 2);
    }
    require(domain == 0 && slot == 0 && function == 0 && bus >= 1 && bus <= devices().size(),
            CUDA_ERROR_INVALID_DEVICE);
    *dev = static_cast<CUdevice>(bus - 1);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType type, CUdevice dev) {
  return initialised([&] {
    device_of(dev);
    require(supported != nullptr && type == CU_EXEC_AFFINITY_TYPE_SM_COUNT);
    *supported = 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice dev, CUdevice peer) {
  return initialised([&] {
    auto& one = device_of(dev);
    auto& other = device_of(peer);
    require(can != nullptr);
    *can = &one != &other;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice dev,
                                 CUdevice peer) {
  return initialised([&] {
    auto& one = device_of(dev);
    auto& other = device_of(peer);
    require(value != nullptr);
    require(&one != &other, CUDA_ERROR_INVALID_DEVICE);
    switch (attribute) {
      case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
      case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = 1;
        return CUDA_SUCCESS;
      case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
        *value = 0;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}
