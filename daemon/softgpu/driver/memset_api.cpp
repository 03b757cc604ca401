// SPDX-License-Identifier: Apache-2.0
// Fills of 8-, 16- and 32-bit values, in one and two dimensions.
#include <algorithm>
#include <cstring>

#include "capture.hpp"
#include "copy.hpp"
#include "graph_memory.hpp"
#include "guard.hpp"
#include "scheduler.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

template <typename Value>
void fill_row(std::uint64_t address, Value value, std::uint64_t count) {
  if constexpr (sizeof(Value) == 1) {
    std::memset(reinterpret_cast<void*>(address), value, count);
  } else {
    std::fill_n(reinterpret_cast<Value*>(address), count, value);
  }
}

// The checked fill alone; null when there is nothing to fill.
template <typename Value>
std::function<void()> fill_move(std::uint64_t address, std::uint64_t pitch, Value value,
                                std::uint64_t width, std::uint64_t height) {
  if (width == 0 || height == 0) return nullptr;
  std::uint64_t row = 0, rows = 0, bytes = 0;
  require(!__builtin_mul_overflow(width, sizeof(Value), &row));
  if (height == 1 && pitch < row) pitch = row;
  require(address % sizeof(Value) == 0 && (height == 1 || pitch % sizeof(Value) == 0));
  require(row <= pitch);
  require(!__builtin_mul_overflow(pitch, height - 1, &rows) &&
          !__builtin_add_overflow(rows, row, &bytes));
  require(!is_pageable({address, side::device}, bytes));
  return [=] {
    for (std::uint64_t at = 0; at < height; ++at) fill_row(address + at * pitch, value, width);
  };
}

template <typename Value>
CUresult fill(const std::shared_ptr<stream>& on, std::uint64_t address, std::uint64_t pitch,
              Value value, std::uint64_t width, std::uint64_t height, completion when) {
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  // What is captured is not checked before it runs, as natively.
  if (is_capturing(*on)) {
    capture_node(on, memset_payload{{address, pitch, value, sizeof(Value), width, height},
                                    on->in->shared_from_this()});
    return CUDA_SUCCESS;
  }
  check_graph_memory(address);
  operation what;
  what.what = operation::kind::work;
  what.run = fill_move(address, pitch, value, width, height);
  const bool host = memory_table::instance().find(address)->is_host();
  const fence made = scheduler::instance().submit(on, std::move(what));
  // A fill of device memory does not make the host wait, in its blocking form neither.
  if (when == completion::blocking && host) {
    scheduler::instance().wait(made);
    return on->in->error();
  }
  return CUDA_SUCCESS;
}

template <typename Value>
CUresult blocking(CUdeviceptr to, std::size_t pitch, Value value, std::size_t width,
                  std::size_t height) {
  return with_context([&](context& current) {
    return fill(default_stream(current), to, pitch, value, width, height, completion::blocking);
  });
}

template <typename Value>
CUresult asynchronous(CUdeviceptr to, std::size_t pitch, Value value, std::size_t width,
                      std::size_t height, CUstream handle) {
  return initialised([&] {
    return fill(stream_of(handle), to, pitch, value, width, height, completion::asynchronous);
  });
}

}  // namespace

namespace gpuwire::softgpu {

std::function<void()> checked_fill(const CUDA_MEMSET_NODE_PARAMS& p) {
  switch (p.elementSize) {
    case 1:
      return fill_move(p.dst, p.pitch, static_cast<unsigned char>(p.value), p.width, p.height);
    case 2:
      return fill_move(p.dst, p.pitch, static_cast<unsigned short>(p.value), p.width, p.height);
    case 4:
      return fill_move(p.dst, p.pitch, p.value, p.width, p.height);
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace gpuwire::softgpu

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return blocking(to, 0, value, count, 1);
}
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return blocking(to, 0, value, count, 1);
}
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return blocking(to, 0, value, count, 1);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return blocking(to, pitch, value, width, height);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return blocking(to, pitch, value, width, height);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                          size_t height) {
  return blocking(to, pitch, value, width, height);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return asynchronous(to, 0, value, count, 1, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return asynchronous(to, 0, value, count, 1, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return asynchronous(to, 0, value, count, 1, stream);
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return asynchronous(to, pitch, value, width, height, stream);
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return asynchronous(to, pitch, value, width, height, stream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                            size_t height, CUstream stream) {
  return asynchronous(to, pitch, value, width, height, stream);
}
