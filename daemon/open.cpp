// SPDX-License-Identifier: Apache-2.0
// The first command of a session: initialises the driver and answers in one snapshot what programs
// ask of devices.
#include <fmt/format.h>

#include <deque>

#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/log.hpp"

namespace gpuwire::daemon::custom {
namespace {

using call = msg::session_open;

// What the views of the reply point to.
struct device_facts {
  std::array<char, 256> name{};
  std::array<char, 64> pci_bus_id{};
  std::array<std::uint8_t, 16> uuid{}, uuid_v2{};
  std::vector<std::int32_t> results, values;
};

msg::device_snapshot describe_device(const driver_table& d, CUdevice device, device_facts& facts) {
  msg::device_snapshot s;
  if (d.cuDeviceGetName)
    d.cuDeviceGetName(facts.name.data(), static_cast<int>(facts.name.size() - 1), device);
  s.name = facts.name.data();
  CUuuid uuid{};
  if (d.cuDeviceGetUuid && d.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS)
    std::memcpy(facts.uuid.data(), uuid.bytes, 16);
  facts.uuid_v2 = facts.uuid;
  if (d.cuDeviceGetUuid_v2 && d.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS)
    std::memcpy(facts.uuid_v2.data(), uuid.bytes, 16);
  s.uuid = {facts.uuid.data(), 16};
  s.uuid_v2 = {facts.uuid_v2.data(), 16};
  std::size_t bytes = 0;
  if (d.cuDeviceTotalMem_v2 && d.cuDeviceTotalMem_v2(&bytes, device) == CUDA_SUCCESS)
    s.total_bytes = bytes;
  if (d.cuDeviceGetPCIBusId)
    d.cuDeviceGetPCIBusId(facts.pci_bus_id.data(), static_cast<int>(facts.pci_bus_id.size() - 1),
                          device);
  s.pci_bus_id = facts.pci_bus_id.data();

  // One more than this header knows: the driver may be newer than we are.
  constexpr int attributes = CU_DEVICE_ATTRIBUTE_MAX + 32;
  for (int i = 0; i < attributes; ++i) {
    int value = 0;
    const auto result = d.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(i), device);
    facts.results.push_back(static_cast<std::int32_t>(result));
    facts.values.push_back(result == CUDA_SUCCESS ? value : 0);
  }
  s.attribute_results = {facts.results.data(), static_cast<std::uint32_t>(facts.results.size())};
  s.attribute_values = {facts.values.data(), static_cast<std::uint32_t>(facts.values.size())};
  s.compute_major = facts.values[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
  s.compute_minor = facts.values[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
  return s;
}

std::vector<std::uint16_t> missing_calls(const call::request& q) {
  std::vector<std::uint16_t> missing;
  for (std::uint32_t i = 0; i < q.call_ids.size; ++i) {
    const auto* known = msg::find_call(q.call_ids[i]);
    if (known == nullptr || known->fingerprint != q.fingerprints[i])
      missing.push_back(q.call_ids[i]);
  }
  return missing;
}

}  // namespace

outcome session_open(call_context& c, const call::request& q) {
  if (q.call_ids.size != q.fingerprints.size) return c.malformed();
  const auto& d = c.driver();
  call::reply r;
  std::deque<device_facts> facts;
  const auto init = d.cuInit(q.init_flags);
  r.init_result = static_cast<std::int32_t>(init);
  int version = 0, devices = 0;
  if (d.cuDriverGetVersion(&version) == CUDA_SUCCESS) r.driver_version = version;
  r.driver_name = c.owner().driver_path();
  if (init == CUDA_SUCCESS && d.cuDeviceGetCount(&devices) == CUDA_SUCCESS) {
    for (int device = 0; device < devices && primary_index(device) < limits::explicit_context_first;
         ++device) {
      CUdevice handle = device;
      if (d.cuDeviceGet && d.cuDeviceGet(&handle, device) != CUDA_SUCCESS) break;
      r.devices.push_back(describe_device(d, handle, facts.emplace_back()));
    }
  }
  const auto missing = missing_calls(q);
  r.calls_missing = {missing.data(), static_cast<std::uint32_t>(missing.size())};
  log_info("session opened", {{"program", std::string(q.program)},
                              {"driver", fmt::format("{}.{}", version / 1000, version % 1000 / 10)},
                              {"devices", std::to_string(r.devices.size())},
                              {"cuInit", std::to_string(r.init_result)}});
  return c.finish<call>(CUDA_SUCCESS, r);
}

}  // namespace gpuwire::daemon::custom
