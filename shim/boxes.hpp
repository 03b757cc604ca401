// SPDX-License-Identifier: Apache-2.0
// Copies of two and three dimensions, the caller's structs taken apart: boxes.cpp carries them out, box_calls.cpp holds the
// driver's functions.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpuwire::shim {

// One side. Memory: address, pitch and height in bytes and rows, 0 where the caller left them out; else an array's handle.
struct box_end {
  CUmemorytype kind{};
  std::uint64_t address = 0, array = 0;
  std::uint64_t context = 0;  // handle; peer copies only
  std::uint64_t x = 0, y = 0, z = 0, level = 0;
  std::uint64_t pitch = 0, height = 0;
};

struct box_size {
  std::uint64_t width = 0, height = 1, depth = 1;  // bytes, rows, slices
  std::uint64_t bytes() const { return width * height * depth; }
};

// Which of the driver's functions copies it.
enum class box_form : std::uint8_t { two_dimensions = 2, three_dimensions = 3, peer = 4 };

CUresult copy_box(box_end from, box_end to, const box_size& size, box_form form, CUstream stream,
                  bool synchronous);

}  // namespace gpuwire::shim
