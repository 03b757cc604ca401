// SPDX-License-Identifier: Apache-2.0
// Two- and three-dimensional copies between memory and arrays.
#include "array.hpp"
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

CUresult copy_2d(context& in, const std::shared_ptr<stream>& on, const CUDA_MEMCPY2D* parameters,
                 completion when) {
  require(parameters != nullptr);
  const auto& p = *parameters;
  const box_extent extent{p.WidthInBytes, p.Height, 1};
  const box from = box_of({p.srcMemoryType, p.srcHost, p.srcDevice, p.srcXInBytes, p.srcY, 0,
                           p.srcPitch, 0, true, p.srcArray},
                          extent);
  const box to = box_of({p.dstMemoryType, p.dstHost, p.dstDevice, p.dstXInBytes, p.dstY, 0,
                         p.dstPitch, 0, true, p.dstArray},
                        extent);
  return copy_box(in, on, to, from, extent, when);
}

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have the same members but for two reserved words.
template <typename Parameters>
CUresult copy_3d(context& in, const std::shared_ptr<stream>& on, const Parameters* parameters,
                 completion when) {
  require(parameters != nullptr);
  const auto& p = *parameters;
  require(p.srcLOD == 0 && p.dstLOD == 0);
  const box_extent extent{p.WidthInBytes, p.Height, p.Depth};
  const box from = box_of({p.srcMemoryType, p.srcHost, p.srcDevice, p.srcXInBytes, p.srcY, p.srcZ,
                           p.srcPitch, p.srcHeight, false, p.srcArray},
                          extent);
  const box to = box_of({p.dstMemoryType, p.dstHost, p.dstDevice, p.dstXInBytes, p.dstY, p.dstZ,
                         p.dstPitch, p.dstHeight, false, p.dstArray},
                        extent);
  return copy_box(in, on, to, from, extent, when);
}

}  // namespace

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* parameters) {
  return with_context([&](context& current) {
    return copy_2d(current, current.legacy, parameters, completion::blocking);
  });
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* parameters) {
  return cuMemcpy2D_v2(parameters);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* parameters, CUstream handle) {
  return initialised([&] {
    auto on = stream_of(handle);
    return copy_2d(*on->in, on, parameters, completion::asynchronous);
  });
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* parameters) {
  return with_context([&](context& current) {
    return copy_3d(current, current.legacy, parameters, completion::blocking);
  });
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* parameters, CUstream handle) {
  return initialised([&] {
    auto on = stream_of(handle);
    return copy_3d(*on->in, on, parameters, completion::asynchronous);
  });
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* parameters) {
  return with_context([&](context& current) {
    return copy_3d(current, current.legacy, parameters, completion::blocking);
  });
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* parameters, CUstream handle) {
  return initialised([&] {
    auto on = stream_of(handle);
    return copy_3d(*on->in, on, parameters, completion::asynchronous);
  });
}
