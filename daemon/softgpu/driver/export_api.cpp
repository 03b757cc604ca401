// SPDX-License-Identifier: Apache-2.0
// cuGetExportTable: of the tables that the real driver serves to libraries, the one that a client's
// library asks the server for, the map from TPCs to GPCs. This device has one GPC.
#include <array>
#include <cstdlib>
#include <cstring>

#include "context.hpp"
#include "device.hpp"
#include "guard.hpp"

using namespace gpuwire::softgpu;

namespace {

constexpr std::size_t slots = 17;
constexpr std::array<unsigned char, 16> map_id = {0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45,
                                                  0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca};

CUresult unsupported() {
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult get_map(std::uint8_t** gpc, std::uint8_t** row) {
  return with_context([&](context& current) {
    require(gpc != nullptr && row != nullptr);
    const std::size_t count = (current.on.multiprocessors + 1) / 2;
    *gpc = static_cast<std::uint8_t*>(std::calloc(count, 1));
    *row = static_cast<std::uint8_t*>(std::calloc(count, 1));
    require(*gpc != nullptr && *row != nullptr, CUDA_ERROR_OUT_OF_MEMORY);
    for (std::size_t tpc = 0; tpc < count; ++tpc) (*row)[tpc] = static_cast<std::uint8_t>(tpc);
    return CUDA_SUCCESS;
  });
}

CUresult free_map(std::uint8_t* gpc, std::uint8_t* row) {
  std::free(gpc);
  std::free(row);
  return CUDA_SUCCESS;
}

const std::array<void*, slots>& map_table() {
  static const auto table = [] {
    std::array<void*, slots> made;
    made.fill(reinterpret_cast<void*>(&unsupported));
    made[0] = reinterpret_cast<void*>(sizeof made);
    made[4] = reinterpret_cast<void*>(&get_map);
    made[13] = reinterpret_cast<void*>(&free_map);
    return made;
  }();
  return table;
}

}  // namespace

CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  if (std::memcmp(id->bytes, map_id.data(), map_id.size()) != 0) return CUDA_ERROR_INVALID_VALUE;
  *table = map_table().data();
  return CUDA_SUCCESS;
}
