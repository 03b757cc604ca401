// SPDX-License-Identifier: Apache-2.0
// What the instructions on textures and on surfaces have in common: the object and the place in it.
#pragma once

#include <optional>

#include "builder.hpp"
#include "texture.hpp"

namespace gpuwire::softgpu::ptx {

struct image_geometry {
  std::uint32_t dimensions = 1;  // coordinates; of a cube: of the direction
  bool layered = false;
  bool cube = false;
};

// From the modifiers; nothing for what is not carried.
std::optional<image_geometry> find_geometry(const form& f);

// `where` is [handle, {coordinates}]. False when the handle is no register of 64 bits: then it is
// the name of a texture reference.
bool stage_image_handle(builder& b, const syntax::operand& where, std::uint32_t slot);
// The layer comes first; a vector may be longer than what counts.
bool stage_coordinates(builder& b, const syntax::operand& o, const image_geometry& shape, type t,
                       std::uint32_t first, std::uint32_t layer_slot);

// The object behind a handle; null after raising a fault.
const texture* find_texture(executor& x, const instruction& i, std::uint64_t handle, bool surface);

}  // namespace gpuwire::softgpu::ptx
