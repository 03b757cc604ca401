// SPDX-License-Identifier: Apache-2.0
// Kernel parameters: from the array of pointers that a program passes to the one block that the
// kernel reads, by the layout the driver reported. And the two kinds of `extra`. Pure, no
// allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace gpuwire::shim {

struct parameter {
  std::uint32_t offset = 0, bytes = 0;
};

// A block larger than this cannot be a kernel's: the hardware's own limit is 32,764.
inline constexpr std::size_t parameter_block_bytes_max = 64 * 1024;

inline std::size_t parameter_block_bytes(std::span<const parameter> layout) {
  std::size_t bytes = 0;
  for (const auto& p : layout)
    if (p.offset + std::size_t{p.bytes} > bytes) bytes = p.offset + std::size_t{p.bytes};
  return bytes;
}

// `block` has parameter_block_bytes(layout) bytes; gaps become zero, so that equal launches have
// equal bytes. False if the array or one of its pointers is null.
inline bool pack_parameters(std::span<const parameter> layout, void* const* values,
                            std::byte* block) {
  if (layout.empty()) return true;
  if (values == nullptr) return false;
  std::size_t filled = 0;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (values[i] == nullptr) return false;
    if (layout[i].offset > filled) std::memset(block + filled, 0, layout[i].offset - filled);
    std::memcpy(block + layout[i].offset, values[i], layout[i].bytes);
    filled = layout[i].offset + std::size_t{layout[i].bytes};
  }
  return true;
}

struct extra_block {
  bool valid = false;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// The list ends with null; known keys are 1 (the block) and 2 (pointer to its size). Anything else
// makes it invalid.
inline extra_block read_extra(void* const* extra) {
  extra_block block;
  bool has_data = false, has_size = false;
  for (std::size_t i = 0; i < 16; i += 2) {
    const auto key = reinterpret_cast<std::uintptr_t>(extra[i]);
    if (key == 0) {
      block.valid = has_data && has_size && (block.data != nullptr || block.bytes == 0) &&
                    block.bytes <= parameter_block_bytes_max;
      return block;
    }
    if (key == 1) {
      block.data = static_cast<const std::byte*>(extra[i + 1]);
      has_data = true;
    } else if (key == 2 && extra[i + 1] != nullptr) {
      std::memcpy(&block.bytes, extra[i + 1], sizeof block.bytes);
      has_size = true;
    } else {
      return block;
    }
  }
  return block;
}

}  // namespace gpuwire::shim
