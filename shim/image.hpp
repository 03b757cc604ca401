// SPDX-License-Identifier: Apache-2.0
// How long is the device code behind a bare pointer? The driver takes images without a length; the
// shim must know what to send. Reads what the format itself says and never beyond the bound it was
// given; allocates only the list of prelinked images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpuwire::shim {

// An image longer than this is not believed.
inline constexpr std::size_t image_bytes_max = std::size_t{1} << 31;

enum class image_kind : std::uint8_t { none = 0, fatbin = 1, elf = 2, text = 3 };

struct image_extent {
  image_kind kind = image_kind::none;  // none: `problem` says why
  std::uint32_t wrapper_version = 0;   // 0: the image came without a wrapper
  std::span<const std::byte> bytes;    // text includes its NUL
  // A wrapper of version 2 (relocatable device code): PTX and machine code of the single objects
  // lie in these fatbins.
  std::vector<std::span<const std::byte>> prelinked;
  std::string problem;
};

// `readable` bounds every read from `image` and from each image a wrapper points to.
image_extent measure_image(const void* image, std::size_t readable = image_bytes_max);

// The same for a pointer to a fatbin header, not to its wrapper.
image_extent measure_fatbin(const void* header, std::size_t readable = image_bytes_max);

}  // namespace gpuwire::shim
