// SPDX-License-Identifier: Apache-2.0
#include "copy.hpp"

#include <cstring>
#include <vector>

#include "capture.hpp"
#include "graph_memory.hpp"
#include "guard.hpp"
#include "safe_read.hpp"
#include "scheduler.hpp"

namespace gpuwire::softgpu {
namespace {

// Pageable sources up to this size are copied aside when the stream is busy; for larger ones the
// caller waits.
constexpr std::uint64_t staged_bytes_max = 1ull << 20;

std::uint64_t checked_product(std::uint64_t one, std::uint64_t other) {
  std::uint64_t product = 0;
  require(!__builtin_mul_overflow(one, other, &product));
  return product;
}

std::uint64_t checked_sum(std::uint64_t one, std::uint64_t other) {
  std::uint64_t sum = 0;
  require(!__builtin_add_overflow(one, other, &sum));
  return sum;
}

// From the first byte of a box to the one after its last.
std::uint64_t span_bytes(const box& which, const box_extent& extent) {
  return checked_sum(checked_sum(checked_product(extent.depth - 1, which.slice),
                                 checked_product(extent.height - 1, which.pitch)),
                     extent.width_bytes);
}

CUresult finish(context& in, const fence& made, bool wait) {
  if (!wait) return CUDA_SUCCESS;
  scheduler::instance().wait(made);
  in.flush_print();
  return in.error();
}

void move_box(const box& to, const box& from, const box_extent& extent) {
  for (std::uint64_t plane = 0; plane < extent.depth; ++plane) {
    for (std::uint64_t row = 0; row < extent.height; ++row) {
      std::memmove(
          reinterpret_cast<void*>(to.from.address + plane * to.slice + row * to.pitch),
          reinterpret_cast<const void*>(from.from.address + plane * from.slice + row * from.pitch),
          extent.width_bytes);
    }
  }
}

// As the driver describes a captured copy.
CUDA_MEMCPY3D linear(const operand& to, const operand& from, std::uint64_t bytes) {
  const auto type = [](const operand& one) {
    return one.what == side::host     ? CU_MEMORYTYPE_HOST
           : one.what == side::device ? CU_MEMORYTYPE_DEVICE
                                      : CU_MEMORYTYPE_UNIFIED;
  };
  CUDA_MEMCPY3D made{};
  made.srcMemoryType = type(from);
  made.dstMemoryType = type(to);
  if (from.what == side::host) {
    made.srcHost = reinterpret_cast<const void*>(from.address);
  } else {
    made.srcDevice = from.address;
  }
  if (to.what == side::host) {
    made.dstHost = reinterpret_cast<void*>(to.address);
  } else {
    made.dstDevice = to.address;
  }
  made.WidthInBytes = bytes;
  made.Height = made.Depth = 1;
  return made;
}

bool is_host(const operand& which) {
  if (which.what == side::array) return false;
  auto found = memory_table::instance().find(which.address);
  return !found || found->is_host();
}

}  // namespace

bool is_pageable(const operand& which, std::uint64_t bytes) {
  if (which.what == side::array) return false;
  require(which.address != 0 && bytes - 1 <= UINT64_MAX - which.address);
  auto& table = memory_table::instance();
  if (auto found = table.find(which.address)) {
    require(found->kind != memory_kind::heap);
    auto whole = table.find_range(which.address, bytes);
    // Mapped memory that no device may use yet is nobody's.
    require(whole && (whole->has_context() || whole->readers != 0));
    return false;
  }
  require(which.what != side::device && !table.is_reserved(which.address) &&
          !table.is_reserved(which.address + bytes - 1));
  if (which.what == side::any) require(readable(which.address, bytes));
  return true;
}

CUresult copy(context& in, const std::shared_ptr<stream>& on, const operand& to,
              const operand& from, std::uint64_t bytes, completion when) {
  if (bytes == 0) return CUDA_SUCCESS;
  const bool to_pageable = is_pageable(to, bytes);
  const bool from_pageable = is_pageable(from, bytes);
  if (is_capturing(*on)) {
    capture_node(on, memcpy_payload{linear(to, from, bytes), in.shared_from_this()});
    return CUDA_SUCCESS;
  }
  check_graph_memory(to.address);
  check_graph_memory(from.address);
  // A copy between device addresses never makes the host wait.
  bool wait = to_pageable || from_pageable ||
              (when == completion::blocking && (is_host(to) || is_host(from)));

  operation what;
  what.what = operation::kind::work;
  auto* destination = reinterpret_cast<void*>(to.address);
  const auto* source = reinterpret_cast<const void*>(from.address);
  const bool stage = from_pageable && !to_pageable && when == completion::asynchronous &&
                     bytes <= staged_bytes_max && !scheduler::instance().idle(on);
  if (stage) {
    auto aside = std::make_shared<std::vector<char>>(bytes);
    std::memcpy(aside->data(), source, bytes);
    what.run = [destination, aside, bytes] { std::memcpy(destination, aside->data(), bytes); };
    wait = false;
  } else {
    what.run = [destination, source, bytes] { std::memmove(destination, source, bytes); };
  }
  return finish(in, scheduler::instance().submit(on, std::move(what)), wait);
}

std::function<void()> box_move(const box& to, const box& from, const box_extent& extent) {
  if (extent.width_bytes == 0 || extent.height == 0 || extent.depth == 0) return nullptr;
  is_pageable(to.from, span_bytes(to, extent));
  is_pageable(from.from, span_bytes(from, extent));
  return [to, from, extent] { move_box(to, from, extent); };
}

CUresult copy_box(context& in, const std::shared_ptr<stream>& on, const box& to, const box& from,
                  const box_extent& extent, completion when) {
  if (extent.width_bytes == 0 || extent.height == 0 || extent.depth == 0) return CUDA_SUCCESS;
  const bool to_pageable = is_pageable(to.from, span_bytes(to, extent));
  const bool from_pageable = is_pageable(from.from, span_bytes(from, extent));
  const bool wait = to_pageable || from_pageable ||
                    (when == completion::blocking && (is_host(to.from) || is_host(from.from)));
  check_graph_memory(to.from.address);
  check_graph_memory(from.from.address);
  operation what;
  what.what = operation::kind::work;
  what.run = [to, from, extent] { move_box(to, from, extent); };
  return finish(in, scheduler::instance().submit(on, std::move(what)), wait);
}

}  // namespace gpuwire::softgpu
