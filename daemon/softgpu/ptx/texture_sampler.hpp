// SPDX-License-Identifier: Apache-2.0
// What a texture unit computes: from coordinates to four channels. Knows nothing of instructions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "texture.hpp"

namespace gpuwire::softgpu::ptx {

// Where the texels of textures on plain device memory are; null for an address that is not there.
class texel_memory {
 public:
  virtual ~texel_memory() = default;
  virtual const std::byte* at(std::uint64_t address, std::uint32_t bytes) = 0;
};

struct sample_request {
  enum class level_choice : std::uint8_t { none, given, gradients };
  std::uint32_t dimensions = 2;
  bool cube = false;
  bool integer = false;  // coordinates in whole texels
  std::array<float, 3> at{};
  std::array<std::int32_t, 3> texel{};  // when `integer`
  std::uint32_t layer = 0;
  level_choice choice = level_choice::none;
  float level = 0;
  std::array<float, 3> dx{}, dy{};
};

// Four words: the bits of floats where the texture gives floats, else integers extended to 32 bits.
using sampled = std::array<std::uint32_t, 4>;

// Nothing when a texel lies where no memory is.
std::optional<sampled> sample(const texture& from, const sample_request& wanted,
                              texel_memory& memory);
// One channel of the four texels that a linear filter would mix.
std::optional<sampled> gather(const texture& from, const sample_request& wanted,
                              std::uint32_t channel, texel_memory& memory);

}  // namespace gpuwire::softgpu::ptx
