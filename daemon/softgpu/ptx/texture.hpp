// SPDX-License-Identifier: Apache-2.0
// Textures and surfaces as kernels see them: images with a format, and how they are read. Made by
// the driver half, immutable, shared by all launches that may use them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace gpuwire::softgpu::ptx {

enum class channel_kind : std::uint8_t {
  u8,
  u16,
  u32,
  s8,
  s16,
  s32,
  f16,
  f32,
};
constexpr std::uint32_t channel_bytes(channel_kind kind) {
  switch (kind) {
    case channel_kind::u8:
    case channel_kind::s8:
      return 1;
    case channel_kind::u16:
    case channel_kind::s16:
    case channel_kind::f16:
      return 2;
    default:
      return 4;
  }
}

struct texel_format {
  channel_kind kind = channel_kind::f32;
  std::uint32_t channels = 1;
  bool always_normalised =
      false;  // integers that stand for 0 to 1 or -1 to 1, however they are read

  std::uint32_t bytes() const { return channel_bytes(kind) * channels; }
};

// Where one mipmap level lies. Planes are depth slices or layers.
struct image_level {
  std::byte* data = nullptr;
  std::uint32_t width = 1, height = 1, depth = 1;  // depth: slices or layers
  std::uint64_t pitch = 0;                         // bytes between rows
  std::uint64_t slice = 0;                         // bytes between planes
};

enum class address_mode : std::uint8_t { wrap, clamp, mirror, border };

// A texture object or a surface object.
struct texture {
  std::uint64_t handle = 0;
  bool surface = false;
  bool linear_memory = false;  // device memory with one row: read by integers, or 0 outside
  bool device_memory = false;  // the driver half does not keep it: every access is looked up
  texel_format format;
  bool layered = false;
  bool cube = false;
  std::vector<image_level> levels;
  std::shared_ptr<const void> keep_alive;  // of `levels`

  // Of textures only.
  std::array<address_mode, 3> modes{address_mode::clamp, address_mode::clamp, address_mode::clamp};
  bool linear_filter = false;
  bool linear_mipmaps = false;
  bool normalised_coordinates = false;
  bool read_as_integer = false;  // else integers of 8 and 16 bits become 0 to 1 or -1 to 1
  bool srgb = false;
  float level_bias = 0, level_min = 0, level_max = 0;
  std::array<float, 4> border{};
};

// All objects that existed when a kernel was launched. A handle holds its index.
struct texture_set {
  static constexpr std::uint64_t index_mask = 0xfffff;
  std::vector<std::shared_ptr<const texture>> objects;

  // Null for what is no handle of a live object.
  const texture* find(std::uint64_t handle) const {
    const std::uint64_t index = handle & index_mask;
    if (index >= objects.size() || !objects[index] || objects[index]->handle != handle)
      return nullptr;
    return objects[index].get();
  }
};

}  // namespace gpuwire::softgpu::ptx
