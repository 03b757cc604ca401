// SPDX-License-Identifier: Apache-2.0
#include "array.hpp"

#include "guard.hpp"
#include "memory.hpp"

namespace gpuwire::softgpu {

array_storage::array_storage(const device& on, std::uint64_t bytes) : on(on), bytes(bytes) {
  auto got = memory_table::instance().reserve_backing(on, memory_kind::device, bytes);
  require(got.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
  base = *got;
}

array_storage::~array_storage() {
  memory_table::instance().release_backing(on, memory_kind::device, base, bytes);
}

array_table& arrays() {
  static auto* table = new array_table;
  return *table;
}

mipmapped_table& mipmapped_arrays() {
  static auto* table = new mipmapped_table;
  return *table;
}

std::shared_ptr<cuda_array> array_of(CUarray handle) {
  auto found = arrays().find(handle);
  require(found != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return found;
}

std::shared_ptr<mipmapped_array> mipmapped_of(CUmipmappedArray handle) {
  auto found = mipmapped_arrays().find(handle);
  require(found != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return found;
}

box array_box(CUarray handle, std::uint64_t x_bytes, std::uint64_t y, std::uint64_t z,
              const box_extent& extent) {
  auto which = array_of(handle);
  const auto inside = [](std::uint64_t start, std::uint64_t count, std::uint64_t whole) {
    return start <= whole && count <= whole - start;
  };
  require(x_bytes % which->format.bytes() == 0 && extent.width_bytes % which->format.bytes() == 0);
  require(inside(x_bytes, extent.width_bytes, which->row_bytes()) &&
          inside(y, extent.height, which->image.height) &&
          inside(z, extent.depth, which->image.depth));
  box made;
  made.from = {which->storage->base + x_bytes + y * which->image.pitch + z * which->image.slice,
               side::array};
  made.pitch = which->image.pitch;
  made.slice = which->image.slice;
  made.keep_alive = which->storage;
  return made;
}

std::optional<ptx::texel_format> texel_format_of(CUarray_format format, unsigned channels) {
  using ptx::channel_kind;
  const auto plain = [&](channel_kind kind) -> std::optional<ptx::texel_format> {
    if (channels != 1 && channels != 2 && channels != 4) return std::nullopt;
    return ptx::texel_format{kind, channels, false};
  };
  const auto normalised = [&](channel_kind kind, CUarray_format one) {
    // X1, X2 and X4 follow each other.
    const std::uint32_t count = 1u << (format - one);
    return channels == count ? std::optional(ptx::texel_format{kind, count, true}) : std::nullopt;
  };
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      return plain(channel_kind::u8);
    case CU_AD_FORMAT_UNSIGNED_INT16:
      return plain(channel_kind::u16);
    case CU_AD_FORMAT_UNSIGNED_INT32:
      return plain(channel_kind::u32);
    case CU_AD_FORMAT_SIGNED_INT8:
      return plain(channel_kind::s8);
    case CU_AD_FORMAT_SIGNED_INT16:
      return plain(channel_kind::s16);
    case CU_AD_FORMAT_SIGNED_INT32:
      return plain(channel_kind::s32);
    case CU_AD_FORMAT_HALF:
      return plain(channel_kind::f16);
    case CU_AD_FORMAT_FLOAT:
      return plain(channel_kind::f32);
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
      return normalised(channel_kind::u8, CU_AD_FORMAT_UNORM_INT8X1);
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
      return normalised(channel_kind::u16, CU_AD_FORMAT_UNORM_INT16X1);
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4:
      return normalised(channel_kind::s8, CU_AD_FORMAT_SNORM_INT8X1);
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return normalised(channel_kind::s16, CU_AD_FORMAT_SNORM_INT16X1);
    default:
      return std::nullopt;
  }
}

}  // namespace gpuwire::softgpu
