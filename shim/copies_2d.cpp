// SPDX-License-Identifier: Apache-2.0
// Copies of two dimensions, row by row as copies of one: correct and in order, but a row that comes
// back from the device costs a round trip. The runtime uses them for every copy from host to host.
#include <cstdint>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/state.hpp"

namespace gpuwire::shim {
namespace {

// One side of the copy: where its first row begins and how far apart its rows are.
struct side {
  CUresult result = CUDA_SUCCESS;
  CUdeviceptr begin = 0;
  std::size_t pitch = 0;
};

struct described_side {
  CUmemorytype kind{};
  CUdeviceptr host = 0, device = 0;
  std::size_t pitch = 0, x = 0, y = 0;
};

side resolve(const described_side& d, std::size_t width, std::size_t height) {
  side s;
  s.pitch = d.pitch == 0 ? width : d.pitch;
  switch (d.kind) {
    case CU_MEMORYTYPE_HOST:
      s.begin = d.host;
      break;
    case CU_MEMORYTYPE_DEVICE:
      // What CUDA does not know must not be taken for host memory below.
      if (!state().memory.find(d.device)) {
        s.result = CUDA_ERROR_INVALID_VALUE;
        return s;
      }
      s.begin = d.device;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      s.begin = d.device;
      break;
    case CU_MEMORYTYPE_ARRAY:
      s.result = CUDA_ERROR_NOT_SUPPORTED;
      return s;
    default:
      s.result = CUDA_ERROR_INVALID_VALUE;
      return s;
  }
  std::uint64_t skipped = 0, rows = 0, end = 0;
  const bool sane = s.begin != 0 && s.pitch >= width && d.x <= s.pitch - width &&
                    !__builtin_mul_overflow(s.pitch, d.y, &skipped) &&
                    !__builtin_add_overflow(skipped, d.x, &skipped) &&
                    !__builtin_add_overflow(s.begin, skipped, &s.begin) &&
                    !__builtin_mul_overflow(s.pitch, height, &rows) &&
                    !__builtin_add_overflow(s.begin, rows, &end);
  if (!sane) s.result = CUDA_ERROR_INVALID_VALUE;
  return s;
}

CUdeviceptr address_of(const void* host) {
  return reinterpret_cast<CUdeviceptr>(host);
}

template <class CopyRow>
CUresult copy_rows(const CUDA_MEMCPY2D* copy, CopyRow&& copy_row) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY2D& c = *copy;
  if (c.WidthInBytes == 0 || c.Height == 0) return copy_row(0, 0, 0);
  const side from = resolve(
      {c.srcMemoryType, address_of(c.srcHost), c.srcDevice, c.srcPitch, c.srcXInBytes, c.srcY},
      c.WidthInBytes, c.Height);
  const side to = resolve(
      {c.dstMemoryType, address_of(c.dstHost), c.dstDevice, c.dstPitch, c.dstXInBytes, c.dstY},
      c.WidthInBytes, c.Height);
  if (from.result != CUDA_SUCCESS) return from.result;
  if (to.result != CUDA_SUCCESS) return to.result;
  if (from.pitch == c.WidthInBytes && to.pitch == c.WidthInBytes)
    return copy_row(to.begin, from.begin, c.WidthInBytes * c.Height);
  for (std::size_t row = 0; row < c.Height; ++row) {
    const CUresult r =
        copy_row(to.begin + row * to.pitch, from.begin + row * from.pitch, c.WidthInBytes);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace

namespace custom {

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) {
  return copy_rows(pCopy, [](CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
    return custom::cuMemcpy(to, from, bytes);
  });
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
  return custom::cuMemcpy2DUnaligned_v2(pCopy);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return copy_rows(pCopy, [hStream](CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
    return custom::cuMemcpyAsync(to, from, bytes, hStream);
  });
}

}  // namespace custom
}  // namespace gpuwire::shim
