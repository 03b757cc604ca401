// SPDX-License-Identifier: Apache-2.0
// The map from TPCs to GPCs, which only an undocumented table of the driver tells: it is read here
// and its bytes are sent.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"

namespace gpuwire::daemon::custom {
namespace {

constexpr std::array<unsigned char, 16> table_id = {0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45,
                                                    0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca};
constexpr std::size_t slot_get = 4, slot_free = 13;
constexpr std::uint64_t table_bytes_max = 1 << 16;
constexpr unsigned processors_per_tpc = 2;

using get_function = CUresult (*)(std::uint8_t** gpc, std::uint8_t** row);
using free_function = CUresult (*)(std::uint8_t* gpc, std::uint8_t* row);

// The first word of the table is its size in bytes: one that does not look like a table with these
// slots is not used.
void* const* find_table(const driver_table& d) {
  if (d.cuGetExportTable == nullptr) return nullptr;
  CUuuid id{};
  std::copy(table_id.begin(), table_id.end(), id.bytes);
  const void* table = nullptr;
  if (d.cuGetExportTable(&table, &id) != CUDA_SUCCESS || table == nullptr) return nullptr;
  auto* const slots = static_cast<void* const*>(table);
  const auto bytes = reinterpret_cast<std::uint64_t>(slots[0]);
  if (bytes < (slot_free + 1) * sizeof(void*) || bytes > table_bytes_max) return nullptr;
  return slots[slot_get] != nullptr && slots[slot_free] != nullptr ? slots : nullptr;
}

std::size_t tpc_count(const driver_table& d) {
  CUdevice device = 0;
  int processors = 0;
  if (d.cuCtxGetDevice == nullptr || d.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      d.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) !=
          CUDA_SUCCESS ||
      processors < 0)
    return 0;
  return (static_cast<std::size_t>(processors) + processors_per_tpc - 1) / processors_per_tpc;
}

}  // namespace

outcome sm_map(call_context& c, const msg::sm_map::request&) {
  using call = msg::sm_map;
  const auto& d = c.driver();
  void* const* slots = find_table(d);
  if (slots == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  std::uint8_t *gpc = nullptr, *row = nullptr;
  const auto result = reinterpret_cast<get_function>(slots[slot_get])(&gpc, &row);
  if (result != CUDA_SUCCESS) return c.finish<call>(result, {});
  const auto bytes_of = [count = tpc_count(d)](std::uint8_t* map) -> wire::bytes_view {
    if (map == nullptr) return {};
    return {reinterpret_cast<const std::byte*>(map), std::min(count, ::malloc_usable_size(map))};
  };
  call::reply r;
  r.gpc = bytes_of(gpc);
  r.row = bytes_of(row);
  const auto answered = c.finish<call>(CUDA_SUCCESS, r);
  if (gpc != nullptr && row != nullptr) reinterpret_cast<free_function>(slots[slot_free])(gpc, row);
  return answered;
}

}  // namespace gpuwire::daemon::custom
