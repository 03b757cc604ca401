// SPDX-License-Identifier: Apache-2.0
#include "shim/devices.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/options.hpp"
#include "shim/visible_devices.hpp"

namespace gpuwire::shim {
namespace {

#define WITHHELD(name, reason) \
  { CU_DEVICE_ATTRIBUTE_##name, #name, reason }
constexpr withheld_attribute withheld[] = {
    WITHHELD(CONCURRENT_MANAGED_ACCESS,
             "host and device cannot touch the same page over a network"),
    WITHHELD(PAGEABLE_MEMORY_ACCESS, "the device cannot reach the client's memory"),
    WITHHELD(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
             "the device cannot reach the client's memory"),
    WITHHELD(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, "the client cannot reach the device's memory"),
    WITHHELD(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
             "the server may not have the address free"),
    WITHHELD(HOST_NATIVE_ATOMIC_SUPPORTED, "there is no link that carries atomics to the client"),
    WITHHELD(ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED,
             "there is no link that carries atomics to the client"),
    WITHHELD(HOST_MEMORY_POOLS_SUPPORTED, "pools of the server's host are out of reach"),
    WITHHELD(HOST_NUMA_MEMORY_POOLS_SUPPORTED, "pools of the server's host are out of reach"),
    WITHHELD(HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
             "allocations of the server's host are out of reach"),
    WITHHELD(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
             "allocations of the server's host are out of reach"),
    WITHHELD(HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, "handles of another machine mean nothing here"),
    WITHHELD(HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED,
             "handles of another machine mean nothing here"),
    WITHHELD(HANDLE_TYPE_FABRIC_SUPPORTED, "handles of another machine mean nothing here"),
    WITHHELD(GPU_DIRECT_RDMA_SUPPORTED, "the client's network cards are not beside the device"),
    WITHHELD(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
             "the client's network cards are not beside the device"),
    WITHHELD(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
             "the client's network cards are not beside the device"),
    WITHHELD(GPU_DIRECT_RDMA_WRITES_ORDERING,
             "the client's network cards are not beside the device"),
    WITHHELD(CAN_FLUSH_REMOTE_WRITES, "the client's network cards are not beside the device"),
    WITHHELD(DMA_BUF_SUPPORTED, "buffers of another machine's kernel mean nothing here"),
    WITHHELD(HOST_ALLOC_DMA_BUF_SUPPORTED, "buffers of another machine's kernel mean nothing here"),
    WITHHELD(HOST_NUMA_MULTINODE_IPC_SUPPORTED, "memory of the server's host is out of reach"),
    WITHHELD(SPARSE_CUDA_ARRAY_SUPPORTED, "sparse arrays are not carried"),
    WITHHELD(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, "sparse arrays are not carried"),
    WITHHELD(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
             "semaphores of another machine mean nothing here"),
    WITHHELD(COOPERATIVE_MULTI_DEVICE_LAUNCH, "one launch over several devices is not carried"),
    WITHHELD(UNIFIED_FUNCTION_POINTERS, "function pointers of another machine mean nothing here"),
    WITHHELD(D3D12_CIG_SUPPORTED, "graphics interoperation is not carried"),
    WITHHELD(VULKAN_CIG_SUPPORTED, "graphics interoperation is not carried"),
};
#undef WITHHELD

std::array<std::uint8_t, 16> uuid_from(const wire::array_view<std::uint8_t>& bytes) {
  std::array<std::uint8_t, 16> uuid{};
  std::copy_n(bytes.begin(), std::min<std::size_t>(bytes.size, uuid.size()), uuid.begin());
  return uuid;
}

device_record device_from(const msg::device_snapshot& snapshot, int ordinal) {
  device_record d;
  d.server_ordinal = ordinal;
  d.name = snapshot.name;
  d.pci_bus_id = snapshot.pci_bus_id;
  d.uuid = uuid_from(snapshot.uuid);
  d.uuid_v2 = uuid_from(snapshot.uuid_v2);
  d.total_bytes = snapshot.total_bytes;
  d.compute_major = snapshot.compute_major;
  d.compute_minor = snapshot.compute_minor;
  d.attribute_results.assign(snapshot.attribute_results.begin(), snapshot.attribute_results.end());
  d.attribute_values.assign(snapshot.attribute_values.begin(), snapshot.attribute_values.end());
  d.attribute_values.resize(d.attribute_results.size());
  // The server's host must be able to touch managed memory at any time (daemon/managed.cpp).
  if (d.attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 0 &&
      d.attribute_values.size() > CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)
    d.attribute_values[CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 0;
  for (const auto& w : withheld) {
    const auto n = static_cast<std::size_t>(w.number);
    if (n < d.attribute_values.size()) d.attribute_values[n] = 0;
  }
  // Of the ways to share a pool only descriptors are carried.
  constexpr auto shared = static_cast<std::size_t>(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
  if (shared < d.attribute_values.size())
    d.attribute_values[shared] &= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return d;
}

}  // namespace

std::span<const withheld_attribute> withheld_attributes() {
  return withheld;
}

void take_session(const msg::session_open::reply& session) {
  process_state& s = state();
  // Newer drivers work; what they add is not known here.
  s.driver_version = std::min<int>(session.driver_version, CUDA_VERSION);
  s.init_result = session.init_result;

  std::vector<device_record> all;
  std::vector<device_identity> identities;
  for (const auto& snapshot : session.devices) {
    all.push_back(device_from(snapshot, static_cast<int>(all.size())));
    identities.push_back({all.back().uuid, all.back().attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                          all.back().attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
                          all.back().attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)});
  }
  const auto visible = environment_variable("CUDA_VISIBLE_DEVICES");
  const auto order = environment_variable("CUDA_DEVICE_ORDER");
  s.devices.clear();
  for (const int ordinal : visible_devices(identities, visible, order))
    s.devices.push_back(std::move(all[static_cast<std::size_t>(ordinal)]));

  for (std::size_t i = 0; i < s.devices.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(s.devices[i].server_ordinal + 1);
    context_record* primary = s.contexts.make(index);
    primary->index = index;
    primary->device = static_cast<int>(i);
    primary->primary = true;
    primary->id.store(wire::make_handle(0, 1, 1, index), std::memory_order_release);
  }
}

const device_record* find_device(CUdevice device) {
  const auto& devices = state().devices;
  if (device < 0 || static_cast<std::size_t>(device) >= devices.size()) return nullptr;
  return &devices[static_cast<std::size_t>(device)];
}

namespace custom {

CUresult cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(state().devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
  const device_record* d = find_device(dev);
  if (d == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (name == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  const auto room = static_cast<std::size_t>(len) - 1;
  const auto bytes = std::min(room, d->name.size());
  std::memcpy(name, d->name.data(), bytes);
  name[bytes] = 0;
  return CUDA_SUCCESS;
}

namespace {
CUresult give_uuid(CUuuid* uuid, CUdevice dev, std::array<std::uint8_t, 16> device_record::*which) {
  const device_record* d = find_device(dev);
  if (d == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(uuid->bytes, (d->*which).data(), sizeof uuid->bytes);
  return CUDA_SUCCESS;
}
}  // namespace

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  return give_uuid(uuid, dev, &device_record::uuid);
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  return give_uuid(uuid, dev, &device_record::uuid_v2);
}

CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice dev) {
  const device_record* d = find_device(dev);
  if (d == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = d->total_bytes;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  const device_record* d = find_device(dev);
  if (d == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto n = static_cast<std::size_t>(attrib);
  if (n >= d->attribute_results.size()) return CUDA_ERROR_INVALID_VALUE;
  if (d->attribute_results[n] != 0) return static_cast<CUresult>(d->attribute_results[n]);
  *pi = d->attribute_values[n];
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  const device_record* d = find_device(dev);
  if (d == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  prop->maxThreadsPerBlock = d->attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int i = 0; i < 3; ++i) {
    prop->maxThreadsDim[i] = d->attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
    prop->maxGridSize[i] = d->attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
  }
  prop->sharedMemPerBlock = d->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  prop->totalConstantMemory = d->attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  prop->SIMDWidth = d->attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  prop->memPitch = d->attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  prop->regsPerBlock = d->attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  prop->clockRate = d->attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  prop->textureAlign = d->attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  const device_record* d = find_device(dev);
  if (d == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = d->compute_major;
  *minor = d->compute_minor;
  return CUDA_SUCCESS;
}

namespace {
// "[domain:]bus:device[.function]" in hexadecimal; the driver takes every prefix of that form.
bool parse_bus_id(const char* text, int& domain, int& bus, int& device) {
  unsigned d = 0, b = 0, v = 0, f = 0;
  int used = 0;
  if (std::sscanf(text, "%x:%x:%x.%x%n", &d, &b, &v, &f, &used) != 4 &&
      std::sscanf(text, "%x:%x:%x%n", &d, &b, &v, &used) != 3) {
    d = 0;
    if (std::sscanf(text, "%x:%x.%x%n", &b, &v, &f, &used) != 3 &&
        std::sscanf(text, "%x:%x%n", &b, &v, &used) != 2)
      return false;
  }
  domain = static_cast<int>(d);
  bus = static_cast<int>(b);
  device = static_cast<int>(v);
  return f == 0;
}
}  // namespace

CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  if (dev == nullptr || pciBusId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int domain = 0, bus = 0, device = 0;
  if (!parse_bus_id(pciBusId, domain, bus, device)) return CUDA_ERROR_INVALID_VALUE;
  const auto& devices = state().devices;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) == domain &&
        devices[i].attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) == bus &&
        devices[i].attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) == device) {
      *dev = static_cast<CUdevice>(i);
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  const device_record* d = find_device(dev);
  if (d == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (pciBusId == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (d->pci_bus_id.size() >= static_cast<std::size_t>(len)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(pciBusId, d->pci_bus_id.c_str(), d->pci_bus_id.size() + 1);
  return CUDA_SUCCESS;
}

}  // namespace custom
}  // namespace gpuwire::shim
