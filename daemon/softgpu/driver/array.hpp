// SPDX-License-Identifier: Apache-2.0
// CUDA arrays and mipmapped arrays. Their memory lies row after row, plane after plane, where no
// device address reaches it; it is freed when the array is destroyed and no queued copy or launched
// kernel needs it any more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "../ptx/texture.hpp"
#include "context.hpp"
#include "copy.hpp"
#include "handles.hpp"

namespace gpuwire::softgpu {

struct array_storage {
  array_storage(const device& on, std::uint64_t bytes);  // refuses with CUDA_ERROR_OUT_OF_MEMORY
  ~array_storage();
  array_storage(const array_storage&) = delete;
  array_storage& operator=(const array_storage&) = delete;

  const device& on;
  const std::uint64_t bytes;
  std::uint64_t base = 0;
};

struct cuda_array {
  std::shared_ptr<context> owner;
  CUarray handle = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  ptx::texel_format format;
  ptx::image_level image;
  std::shared_ptr<array_storage> storage;
  bool of_mipmap = false;  // a level: it goes with the mipmapped array

  std::uint64_t row_bytes() const { return std::uint64_t{image.width} * format.bytes(); }
};

struct mipmapped_array {
  std::shared_ptr<context> owner;
  CUmipmappedArray handle = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  ptx::texel_format format;
  std::vector<std::shared_ptr<cuda_array>> levels;
};

using array_table = handle_table<cuda_array, CUarray, handle_kind::array>;
using mipmapped_table =
    handle_table<mipmapped_array, CUmipmappedArray, handle_kind::mipmapped_array>;
array_table& arrays();
mipmapped_table& mipmapped_arrays();
// Refuse with 400.
std::shared_ptr<cuda_array> array_of(CUarray handle);
std::shared_ptr<mipmapped_array> mipmapped_of(CUmipmappedArray handle);

// The box of a copy whose end is inside an array; refused when it is not wholly inside.
box array_box(CUarray handle, std::uint64_t x_bytes, std::uint64_t y, std::uint64_t z,
              const box_extent& extent);

// Nothing for a format that the soft GPU does not know.
std::optional<ptx::texel_format> texel_format_of(CUarray_format format, unsigned channels);

}  // namespace gpuwire::softgpu
