// SPDX-License-Identifier: Apache-2.0
// Tensor maps. The driver reads arrays whose lengths follow from the rank; it is given arrays that
// are long enough for every rank, filled with what the client sent.
#include <algorithm>
#include <array>
#include <cstring>

#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"

namespace gpuwire::daemon::custom {
namespace {

enum class encoding : std::uint8_t { tiled = 0, im2col = 1, im2col_wide = 2, replace_address = 3 };

constexpr std::uint32_t rank_max = 5;

template <class Value>
struct padded_array {
  std::array<Value, 8> values{};
  bool given = false;

  template <class Wire>
  bool read(const wire::array_view<Wire>& from, std::uint32_t count, bool is_given) {
    given = is_given;
    if (from.size != (given ? count : 0)) return false;
    std::copy_n(from.begin(), from.size, values.begin());
    return true;
  }
  const Value* pointer() const { return given ? values.data() : nullptr; }
};

struct arrays {
  padded_array<cuuint64_t> dimensions, strides;
  padded_array<cuuint32_t> box, element_strides;
  padded_array<int> lower, upper;

  bool read(const msg::tensor_map::request& q, encoding kind) {
    const auto less = [&q](std::uint32_t n) { return q.rank > n ? q.rank - n : 0; };
    const bool wide = kind == encoding::im2col_wide;
    return dimensions.read(q.dimensions, q.rank, (q.given & 1) != 0) &&
           strides.read(q.strides, less(1), (q.given & 2) != 0) &&
           box.read(q.box, q.rank, (q.given & 4) != 0) &&
           element_strides.read(q.element_strides, q.rank, (q.given & 8) != 0) &&
           lower.read(q.lower, wide ? 1 : less(2), wide || (q.given & 16) != 0) &&
           upper.read(q.upper, wide ? 1 : less(2), wide || (q.given & 32) != 0);
  }
};

// Enumerators beyond the header's are refused as the driver refuses them, before they become values
// of the type.
bool in_range(const msg::tensor_map::request& q) {
  return q.data_type <= CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B &&
         q.interleave <= CU_TENSOR_MAP_INTERLEAVE_32B &&
         q.mode <= CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128 &&
         q.swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
         q.promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
         q.out_of_bounds <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
}

CUresult encode(const driver_table& d, const msg::tensor_map::request& q, const arrays& a,
                CUtensorMap* map) {
  auto* const address = reinterpret_cast<void*>(q.address);  // only ever written into the map
  const auto type = static_cast<CUtensorMapDataType>(q.data_type);
  const auto interleave = static_cast<CUtensorMapInterleave>(q.interleave);
  const auto swizzle = static_cast<CUtensorMapSwizzle>(q.swizzle);
  const auto promotion = static_cast<CUtensorMapL2promotion>(q.promotion);
  const auto fill = static_cast<CUtensorMapFloatOOBfill>(q.out_of_bounds);
  switch (static_cast<encoding>(q.kind)) {
    case encoding::tiled:
      if (d.cuTensorMapEncodeTiled == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      return d.cuTensorMapEncodeTiled(
          map, type, q.rank, address, a.dimensions.pointer(), a.strides.pointer(), a.box.pointer(),
          a.element_strides.pointer(), interleave, swizzle, promotion, fill);
    case encoding::im2col:
      if (d.cuTensorMapEncodeIm2col == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      return d.cuTensorMapEncodeIm2col(map, type, q.rank, address, a.dimensions.pointer(),
                                       a.strides.pointer(), a.lower.pointer(), a.upper.pointer(),
                                       q.channels, q.pixels, a.element_strides.pointer(),
                                       interleave, swizzle, promotion, fill);
    case encoding::im2col_wide:
      if (d.cuTensorMapEncodeIm2colWide == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      return d.cuTensorMapEncodeIm2colWide(
          map, type, q.rank, address, a.dimensions.pointer(), a.strides.pointer(),
          a.lower.values[0], a.upper.values[0], q.channels, q.pixels, a.element_strides.pointer(),
          interleave, static_cast<CUtensorMapIm2ColWideMode>(q.mode), swizzle, promotion, fill);
    case encoding::replace_address:
      if (d.cuTensorMapReplaceAddress == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      return d.cuTensorMapReplaceAddress(map, address);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

outcome tensor_map(call_context& c, const msg::tensor_map::request& q) {
  using call = msg::tensor_map;
  const auto kind = static_cast<encoding>(q.kind);
  const bool replaces = kind == encoding::replace_address;
  if (kind > encoding::replace_address) return c.malformed();
  if (!in_range(q) || q.rank > rank_max) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  arrays a;
  if (!a.read(q, kind)) return c.malformed();
  CUtensorMap map{};
  if (q.map.size != (replaces && q.map_given ? sizeof map : 0)) return c.malformed();
  if (q.map.size != 0) std::memcpy(&map, q.map.data, sizeof map);
  const auto result = encode(c.driver(), q, a, q.map_given ? &map : nullptr);
  call::reply r;
  if (result == CUDA_SUCCESS) r.encoded = {reinterpret_cast<const std::byte*>(&map), sizeof map};
  return c.finish<call>(result, r);
}

}  // namespace gpuwire::daemon::custom
