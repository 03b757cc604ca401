// SPDX-License-Identifier: Apache-2.0
// Two- and three-dimensional copies between memory and arrays.
#include <type_traits>

#include "array.hpp"
#include "capture.hpp"
#include "copy.hpp"
#include "guard.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

// One end of any of the copy structures.
struct end {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  std::size_t x_bytes;
  std::size_t y;
  std::size_t z;
  std::size_t pitch;
  std::size_t height;  // rows between planes; 0 in two dimensions
  bool flat;           // two dimensions
  CUarray array;
};

std::uint64_t offset_sum(std::uint64_t base, std::uint64_t count, std::uint64_t stride) {
  std::uint64_t product = 0, sum = 0;
  require(!__builtin_mul_overflow(count, stride, &product) &&
          !__builtin_add_overflow(base, product, &sum));
  return sum;
}

box box_of(const end& from, const box_extent& extent) {
  if (from.type == CU_MEMORYTYPE_ARRAY)
    return array_box(from.array, from.x_bytes, from.y, from.z, extent);
  box made;
  switch (from.type) {
    case CU_MEMORYTYPE_HOST:
      made.from = {reinterpret_cast<std::uint64_t>(from.host), side::host};
      break;
    case CU_MEMORYTYPE_DEVICE:
      made.from = {from.device, side::device};
      break;
    case CU_MEMORYTYPE_UNIFIED:
      made.from = {from.device, side::any};
      break;
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
  require(made.from.address != 0 || extent.width_bytes == 0 || extent.height == 0 ||
          extent.depth == 0);
  made.pitch = from.pitch;
  const bool one_row = extent.height <= 1 && extent.depth <= 1;
  if (made.pitch == 0) made.pitch = one_row ? extent.width_bytes + from.x_bytes : 0;
  require(made.pitch <= limits::pitch_bytes_max && from.x_bytes <= made.pitch &&
          extent.width_bytes <= made.pitch - from.x_bytes);
  if (!from.flat) {
    require(from.height == 0 ? extent.depth <= 1
                             : from.y <= from.height && extent.height <= from.height - from.y);
    made.slice = offset_sum(0, from.height, made.pitch);
  }
  made.from.address = offset_sum(made.from.address, from.x_bytes, 1);
  made.from.address = offset_sum(made.from.address, from.y, made.pitch);
  made.from.address = offset_sum(made.from.address, from.z, made.slice);
  return made;
}

struct boxes {
  box to;
  box from;
  box_extent extent;
};

boxes boxes_of(const CUDA_MEMCPY2D& p) {
  const box_extent extent{p.WidthInBytes, p.Height, 1};
  const box from = box_of({p.srcMemoryType, p.srcHost, p.srcDevice, p.srcXInBytes, p.srcY, 0,
                           p.srcPitch, 0, true, p.srcArray},
                          extent);
  const box to = box_of({p.dstMemoryType, p.dstHost, p.dstDevice, p.dstXInBytes, p.dstY, 0,
                         p.dstPitch, 0, true, p.dstArray},
                        extent);
  return {to, from, extent};
}

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have the same members but for two reserved words.
template <typename Parameters>
boxes boxes_of(const Parameters& p) {
  require(p.srcLOD == 0 && p.dstLOD == 0);
  const box_extent extent{p.WidthInBytes, p.Height, p.Depth};
  const bool flat = p.Depth <= 1 && p.srcZ == 0 && p.dstZ == 0;
  const box from = box_of({p.srcMemoryType, p.srcHost, p.srcDevice, p.srcXInBytes, p.srcY, p.srcZ,
                           p.srcPitch, p.srcHeight, flat && p.srcHeight == 0, p.srcArray},
                          extent);
  const box to = box_of({p.dstMemoryType, p.dstHost, p.dstDevice, p.dstXInBytes, p.dstY, p.dstZ,
                         p.dstPitch, p.dstHeight, flat && p.dstHeight == 0, p.dstArray},
                        extent);
  return {to, from, extent};
}

// The structure of a graph's copy node that says the same.
template <typename Parameters>
CUDA_MEMCPY3D as_node(const Parameters& p) {
  CUDA_MEMCPY3D made{};
  made.srcXInBytes = p.srcXInBytes;
  made.srcY = p.srcY;
  made.srcMemoryType = p.srcMemoryType;
  made.srcHost = p.srcHost;
  made.srcDevice = p.srcDevice;
  made.srcArray = p.srcArray;
  made.srcPitch = p.srcPitch;
  made.dstXInBytes = p.dstXInBytes;
  made.dstY = p.dstY;
  made.dstMemoryType = p.dstMemoryType;
  made.dstHost = p.dstHost;
  made.dstDevice = p.dstDevice;
  made.dstArray = p.dstArray;
  made.dstPitch = p.dstPitch;
  made.WidthInBytes = p.WidthInBytes;
  made.Height = p.Height;
  made.Depth = 1;
  if constexpr (!std::is_same_v<Parameters, CUDA_MEMCPY2D>) {
    made.srcZ = p.srcZ;
    made.srcLOD = p.srcLOD;
    made.srcHeight = p.srcHeight;
    made.dstZ = p.dstZ;
    made.dstLOD = p.dstLOD;
    made.dstHeight = p.dstHeight;
    made.Depth = p.Depth;
  }
  return made;
}

template <typename Parameters>
CUresult copy_boxes(context& in, const std::shared_ptr<stream>& on, const Parameters* parameters,
                    completion when) {
  require(parameters != nullptr);
  const auto all = boxes_of(*parameters);
  if (!is_capturing(*on)) return copy_box(in, on, all.to, all.from, all.extent, when);
  if (box_move(all.to, all.from, all.extent))
    capture_node(on, memcpy_payload{as_node(*parameters), in.shared_from_this()});
  return CUDA_SUCCESS;
}

}  // namespace

namespace gpuwire::softgpu {

std::function<void()> checked_copy(const CUDA_MEMCPY3D& parameters) {
  const auto all = boxes_of(parameters);
  return box_move(all.to, all.from, all.extent);
}

}  // namespace gpuwire::softgpu

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* parameters) {
  return with_context([&](context& current) {
    return copy_boxes(current, default_stream(current), parameters, completion::blocking);
  });
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* parameters) {
  return cuMemcpy2D_v2(parameters);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* parameters, CUstream handle) {
  return initialised([&] {
    auto on = stream_of(handle);
    return copy_boxes(*on->in, on, parameters, completion::asynchronous);
  });
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* parameters) {
  return with_context([&](context& current) {
    return copy_boxes(current, default_stream(current), parameters, completion::blocking);
  });
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* parameters, CUstream handle) {
  return initialised([&] {
    auto on = stream_of(handle);
    return copy_boxes(*on->in, on, parameters, completion::asynchronous);
  });
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* parameters) {
  return with_context([&](context& current) {
    return copy_boxes(current, default_stream(current), parameters, completion::blocking);
  });
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* parameters, CUstream handle) {
  return initialised([&] {
    auto on = stream_of(handle);
    return copy_boxes(*on->in, on, parameters, completion::asynchronous);
  });
}
