// SPDX-License-Identifier: Apache-2.0
// Batches of copies. Every copy is checked before the first is given to the stream; they then run
// one after the other, which is one of the orders that a batch allows.
#include <vector>

#include "array.hpp"
#include "copy.hpp"
#include "guard.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

void check_order(CUmemcpySrcAccessOrder order, unsigned flags) {
  require(order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
  require((flags & ~static_cast<unsigned>(CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)) == 0);
}

// A batch cannot be given to the legacy stream.
std::shared_ptr<stream> batch_stream(CUstream handle) {
  require(handle != nullptr && handle != CU_STREAM_LEGACY);
  return stream_of(handle);
}

// Calls `body(index)` for each; on a refusal `failed` says which it was.
template <typename Body>
void for_each_copy(std::size_t count, std::size_t* failed, Body body) {
  for (std::size_t at = 0; at < count; ++at) {
    if (failed != nullptr) *failed = at;
    body(at);
  }
}

CUresult batch(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
               CUmemcpyAttributes* attributes, size_t* starts, size_t attribute_count,
               size_t* failed, CUstream handle) {
  return initialised([&] {
    auto on = batch_stream(handle);
    if (failed != nullptr) *failed = SIZE_MAX;
    require(to != nullptr && from != nullptr && sizes != nullptr && count > 0);
    require(attributes != nullptr && starts != nullptr && attribute_count > 0 &&
            attribute_count <= count && starts[0] == 0);
    for (size_t at = 0; at < attribute_count; ++at) {
      check_order(attributes[at].srcAccessOrder, attributes[at].flags);
      require(starts[at] < count && (at == 0 || starts[at] > starts[at - 1]));
    }
    for_each_copy(count, failed, [&](size_t at) {
      require(sizes[at] > 0);
      is_pageable({to[at], side::any}, sizes[at]);
      is_pageable({from[at], side::any}, sizes[at]);
    });
    for_each_copy(count, failed, [&](size_t at) {
      const CUresult result = copy(*on->in, on, {to[at], side::any}, {from[at], side::any},
                                   sizes[at], completion::asynchronous);
      require(result == CUDA_SUCCESS, result);
    });
    if (failed != nullptr) *failed = SIZE_MAX;
    return CUDA_SUCCESS;
  });
}

struct boxes {
  box to;
  box from;
  box_extent extent;
};

std::uint64_t product(std::uint64_t one, std::uint64_t other) {
  std::uint64_t result = 0;
  require(!__builtin_mul_overflow(one, other, &result));
  return result;
}

box box_of(const CUmemcpy3DOperand& from, std::uint64_t element, const CUextent3D& extent,
           const box_extent& in_bytes) {
  if (from.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    const auto& place = from.op.array;
    return array_box(place.array, product(place.offset.x, element), place.offset.y, place.offset.z,
                     in_bytes);
  }
  const auto& place = from.op.ptr;
  require(place.rowLength == 0 || place.rowLength >= extent.width);
  require(place.layerHeight == 0 || place.layerHeight >= extent.height);
  box made;
  made.from = {place.ptr, side::any};
  made.pitch = product(place.rowLength == 0 ? extent.width : place.rowLength, element);
  made.slice = product(place.layerHeight == 0 ? extent.height : place.layerHeight, made.pitch);
  return made;
}

boxes boxes_of(const CUDA_MEMCPY3D_BATCH_OP& one) {
  const auto is_array = [](const CUmemcpy3DOperand& end) {
    require(end.type == CU_MEMCPY_OPERAND_TYPE_ARRAY || end.type == CU_MEMCPY_OPERAND_TYPE_POINTER);
    return end.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
  };
  check_order(one.srcAccessOrder, one.flags);
  const auto& extent = one.extent;
  require(extent.width > 0 && extent.height > 0 && extent.depth > 0);
  std::uint64_t element = 1;
  const bool from_array = is_array(one.src), to_array = is_array(one.dst);
  if (from_array) element = array_of(one.src.op.array.array)->format.bytes();
  if (to_array) {
    const std::uint64_t of_target = array_of(one.dst.op.array.array)->format.bytes();
    require(!from_array || of_target == element);
    element = of_target;
  }
  const box_extent in_bytes{product(extent.width, element), extent.height, extent.depth};
  return {box_of(one.dst, element, extent, in_bytes), box_of(one.src, element, extent, in_bytes),
          in_bytes};
}

CUresult batch_3d(size_t count, CUDA_MEMCPY3D_BATCH_OP* list, size_t* failed,
                  unsigned long long flags, CUstream handle) {
  return initialised([&] {
    auto on = batch_stream(handle);
    if (failed != nullptr) *failed = SIZE_MAX;
    require(list != nullptr && count > 0 && flags == 0);
    std::vector<boxes> all;
    for_each_copy(count, failed, [&](size_t at) { all.push_back(boxes_of(list[at])); });
    for_each_copy(count, failed, [&](size_t at) {
      const CUresult result =
          copy_box(*on->in, on, all[at].to, all[at].from, all[at].extent, completion::asynchronous);
      require(result == CUDA_SUCCESS, result);
    });
    if (failed != nullptr) *failed = SIZE_MAX;
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* starts, size_t attribute_count,
                            size_t* failed, CUstream stream) {
  return batch(to, from, sizes, count, attributes, starts, attribute_count, failed, stream);
}
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attributes, size_t* starts,
                               size_t attribute_count, CUstream stream) {
  return batch(to, from, sizes, count, attributes, starts, attribute_count, nullptr, stream);
}
CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* list, size_t* failed,
                              unsigned long long flags, CUstream stream) {
  return batch_3d(count, list, failed, flags, stream);
}
CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* list,
                                 unsigned long long flags, CUstream stream) {
  return batch_3d(count, list, nullptr, flags, stream);
}
