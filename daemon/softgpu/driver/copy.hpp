// SPDX-License-Identifier: Apache-2.0
// Copies and fills of memory, checked and given to a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "context.hpp"
#include "memory.hpp"
#include "stream.hpp"

namespace gpuwire::softgpu {

// What an argument must name.
enum class side {
  device,  // an address that CUDA knows
  host,    // any memory of the process; null is refused
  any,     // either, to be found out (unified addressing)
  array,   // inside an array, and checked
};

struct operand {
  std::uint64_t address = 0;
  side what = side::any;
};

// Whether the range is pageable host memory, unknown to CUDA. Refuses with CUDA_ERROR_INVALID_VALUE
// for a range that is neither that nor inside one allocation.
bool is_pageable(const operand& which, std::uint64_t bytes);

// One rectangular box of memory: rows of `width` bytes.
struct box {
  operand from;
  std::uint64_t pitch = 0;                 // bytes between rows
  std::uint64_t slice = 0;                 // bytes between planes
  std::shared_ptr<const void> keep_alive;  // of an array
};
struct box_extent {
  std::uint64_t width_bytes = 0;
  std::uint64_t height = 1;
  std::uint64_t depth = 1;
};

enum class completion { blocking, asynchronous };

// Both keep CUDA's promises about the host's memory: a pageable source may be overwritten on
// return, a pageable destination is filled on return.
CUresult copy(context& in, const std::shared_ptr<stream>& on, const operand& to,
              const operand& from, std::uint64_t bytes, completion when);
// The checked move alone; null when the box is empty.
std::function<void()> box_move(const box& to, const box& from, const box_extent& extent);
CUresult copy_box(context& in, const std::shared_ptr<stream>& on, const box& to, const box& from,
                  const box_extent& extent, completion when);

// For the nodes of graphs: what the structure asks for, checked now and done by the call. Null when
// there is nothing to do.
std::function<void()> checked_copy(const CUDA_MEMCPY3D& parameters);
std::function<void()> checked_fill(const CUDA_MEMSET_NODE_PARAMS& parameters);

}  // namespace gpuwire::softgpu
