// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA 3.1 and older, which have 32-bit addresses and sizes. Each is its successor
// with the numbers widened on the way in; what does not fit into 32 bits on the way out is refused.
#include <algorithm>
#include <limits>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"

namespace gpuwire::shim {
namespace {

constexpr std::uint64_t address_end = std::uint64_t{1} << 32;

bool fits(std::uint64_t value) {
  return value < address_end;
}

// A size that does not fit is told as the largest that does, as the driver of those days did.
unsigned clamped(std::size_t value) {
  return static_cast<unsigned>(std::min<std::size_t>(value, std::numeric_limits<unsigned>::max()));
}

CUDA_MEMCPY2D widened(const CUDA_MEMCPY2D_v1& c) {
  CUDA_MEMCPY2D w{};
  w.srcXInBytes = c.srcXInBytes;
  w.srcY = c.srcY;
  w.srcMemoryType = c.srcMemoryType;
  w.srcHost = c.srcHost;
  w.srcDevice = c.srcDevice;
  w.srcArray = c.srcArray;
  w.srcPitch = c.srcPitch;
  w.dstXInBytes = c.dstXInBytes;
  w.dstY = c.dstY;
  w.dstMemoryType = c.dstMemoryType;
  w.dstHost = c.dstHost;
  w.dstDevice = c.dstDevice;
  w.dstArray = c.dstArray;
  w.dstPitch = c.dstPitch;
  w.WidthInBytes = c.WidthInBytes;
  w.Height = c.Height;
  return w;
}

CUDA_MEMCPY3D widened(const CUDA_MEMCPY3D_v1& c) {
  CUDA_MEMCPY3D w{};
  w.srcXInBytes = c.srcXInBytes;
  w.srcY = c.srcY;
  w.srcZ = c.srcZ;
  w.srcLOD = c.srcLOD;
  w.srcMemoryType = c.srcMemoryType;
  w.srcHost = c.srcHost;
  w.srcDevice = c.srcDevice;
  w.srcArray = c.srcArray;
  w.reserved0 = c.reserved0;
  w.srcPitch = c.srcPitch;
  w.srcHeight = c.srcHeight;
  w.dstXInBytes = c.dstXInBytes;
  w.dstY = c.dstY;
  w.dstZ = c.dstZ;
  w.dstLOD = c.dstLOD;
  w.dstMemoryType = c.dstMemoryType;
  w.dstHost = c.dstHost;
  w.dstDevice = c.dstDevice;
  w.dstArray = c.dstArray;
  w.reserved1 = c.reserved1;
  w.dstPitch = c.dstPitch;
  w.dstHeight = c.dstHeight;
  w.WidthInBytes = c.WidthInBytes;
  w.Height = c.Height;
  w.Depth = c.Depth;
  return w;
}

CUDA_ARRAY_DESCRIPTOR widened(const CUDA_ARRAY_DESCRIPTOR_v1& d) {
  CUDA_ARRAY_DESCRIPTOR w{};
  w.Width = d.Width;
  w.Height = d.Height;
  w.Format = d.Format;
  w.NumChannels = d.NumChannels;
  return w;
}

template <class Copy, class Function>
CUresult copy_box(const Copy* copy, Function&& function) {
  if (copy == nullptr) return function(nullptr);
  const auto wide = widened(*copy);
  return function(&wide);
}

}  // namespace

namespace custom {

// ---- devices and memory ----

CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice dev) {
  std::size_t wide = 0;
  const CUresult r = ::cuDeviceTotalMem_v2(bytes != nullptr ? &wide : nullptr, dev);
  if (r == CUDA_SUCCESS) *bytes = clamped(wide);
  return r;
}

CUresult cuMemGetInfo(unsigned int* free, unsigned int* total) {
  std::size_t wide_free = 0, wide_total = 0;
  const CUresult r = ::cuMemGetInfo_v2(free != nullptr ? &wide_free : nullptr,
                                       total != nullptr ? &wide_total : nullptr);
  if (r != CUDA_SUCCESS) return r;
  if (free != nullptr) *free = clamped(wide_free);
  if (total != nullptr) *total = clamped(wide_total);
  return CUDA_SUCCESS;
}

// Memory whose address the caller could not hold is given back.
CUresult cuMemAlloc(CUdeviceptr_v1* dptr, unsigned int bytesize) {
  CUdeviceptr wide = 0;
  const CUresult r = ::cuMemAlloc_v2(dptr != nullptr ? &wide : nullptr, bytesize);
  if (r != CUDA_SUCCESS) return r;
  if (fits(wide)) {
    *dptr = static_cast<CUdeviceptr_v1>(wide);
    return CUDA_SUCCESS;
  }
  const CUresult freed = ::cuMemFree_v2(wide);
  return freed != CUDA_SUCCESS ? freed : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAllocPitch(CUdeviceptr_v1* dptr, unsigned int* pPitch, unsigned int WidthInBytes,
                         unsigned int Height, unsigned int ElementSizeBytes) {
  CUdeviceptr wide = 0;
  std::size_t pitch = 0;
  const CUresult r =
      ::cuMemAllocPitch_v2(dptr != nullptr ? &wide : nullptr, pPitch != nullptr ? &pitch : nullptr,
                           WidthInBytes, Height, ElementSizeBytes);
  if (r != CUDA_SUCCESS) return r;
  if (fits(wide) && fits(pitch)) {
    *dptr = static_cast<CUdeviceptr_v1>(wide);
    *pPitch = static_cast<unsigned>(pitch);
    return CUDA_SUCCESS;
  }
  const CUresult freed = ::cuMemFree_v2(wide);
  return freed != CUDA_SUCCESS ? freed : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree(CUdeviceptr_v1 dptr) {
  return ::cuMemFree_v2(dptr);
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1* pbase, unsigned int* psize, CUdeviceptr_v1 dptr) {
  CUdeviceptr base = 0;
  std::size_t size = 0;
  const CUresult r = ::cuMemGetAddressRange_v2(&base, &size, dptr);
  if (r != CUDA_SUCCESS) return r;
  if (!fits(base)) return CUDA_ERROR_INVALID_VALUE;
  if (pbase != nullptr) *pbase = static_cast<CUdeviceptr_v1>(base);
  if (psize != nullptr) *psize = clamped(size);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocHost(void** pp, unsigned int bytesize) {
  return ::cuMemAllocHost_v2(pp, bytesize);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1* pdptr, void* p, unsigned int Flags) {
  CUdeviceptr wide = 0;
  const CUresult r = ::cuMemHostGetDevicePointer_v2(pdptr != nullptr ? &wide : nullptr, p, Flags);
  if (r != CUDA_SUCCESS) return r;
  if (!fits(wide)) return CUDA_ERROR_INVALID_VALUE;
  *pdptr = static_cast<CUdeviceptr_v1>(wide);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr_v1* dptr, unsigned int* bytes, CUmodule hmod,
                           const char* name) {
  CUdeviceptr wide = 0;
  std::size_t size = 0;
  const CUresult r = ::cuModuleGetGlobal_v2(&wide, &size, hmod, name);
  if (r != CUDA_SUCCESS) return r;
  if (dptr != nullptr && !fits(wide)) return CUDA_ERROR_INVALID_VALUE;
  if (dptr != nullptr) *dptr = static_cast<CUdeviceptr_v1>(wide);
  if (bytes != nullptr) *bytes = clamped(size);
  return CUDA_SUCCESS;
}

// ---- copies ----

CUresult cuMemcpyHtoD(CUdeviceptr_v1 dstDevice, const void* srcHost, unsigned int ByteCount) {
  return ::cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount);
}
CUresult cuMemcpyDtoH(void* dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount) {
  return ::cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount);
}
CUresult cuMemcpyDtoD(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice, unsigned int ByteCount) {
  return ::cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 dstDevice, const void* srcHost, unsigned int ByteCount,
                           CUstream hStream) {
  return ::cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, hStream);
}
CUresult cuMemcpyDtoHAsync(void* dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount,
                           CUstream hStream) {
  return ::cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, hStream);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice,
                           unsigned int ByteCount, CUstream hStream) {
  return ::cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
}

CUresult cuMemcpyDtoA(CUarray dstArray, unsigned int dstOffset, CUdeviceptr_v1 srcDevice,
                      unsigned int ByteCount) {
  return ::cuMemcpyDtoA_v2(dstArray, dstOffset, srcDevice, ByteCount);
}
CUresult cuMemcpyAtoD(CUdeviceptr_v1 dstDevice, CUarray srcArray, unsigned int srcOffset,
                      unsigned int ByteCount) {
  return ::cuMemcpyAtoD_v2(dstDevice, srcArray, srcOffset, ByteCount);
}
CUresult cuMemcpyHtoA(CUarray dstArray, unsigned int dstOffset, const void* srcHost,
                      unsigned int ByteCount) {
  return ::cuMemcpyHtoA_v2(dstArray, dstOffset, srcHost, ByteCount);
}
CUresult cuMemcpyAtoH(void* dstHost, CUarray srcArray, unsigned int srcOffset,
                      unsigned int ByteCount) {
  return ::cuMemcpyAtoH_v2(dstHost, srcArray, srcOffset, ByteCount);
}
CUresult cuMemcpyAtoA(CUarray dstArray, unsigned int dstOffset, CUarray srcArray,
                      unsigned int srcOffset, unsigned int ByteCount) {
  return ::cuMemcpyAtoA_v2(dstArray, dstOffset, srcArray, srcOffset, ByteCount);
}
CUresult cuMemcpyHtoAAsync(CUarray dstArray, unsigned int dstOffset, const void* srcHost,
                           unsigned int ByteCount, CUstream hStream) {
  return ::cuMemcpyHtoAAsync_v2(dstArray, dstOffset, srcHost, ByteCount, hStream);
}
CUresult cuMemcpyAtoHAsync(void* dstHost, CUarray srcArray, unsigned int srcOffset,
                           unsigned int ByteCount, CUstream hStream) {
  return ::cuMemcpyAtoHAsync_v2(dstHost, srcArray, srcOffset, ByteCount, hStream);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1* pCopy) {
  return copy_box(pCopy, [](const CUDA_MEMCPY2D* wide) { return ::cuMemcpy2D_v2(wide); });
}
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1* pCopy) {
  return copy_box(pCopy, [](const CUDA_MEMCPY2D* wide) { return ::cuMemcpy2DUnaligned_v2(wide); });
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1* pCopy, CUstream hStream) {
  return copy_box(pCopy,
                  [&](const CUDA_MEMCPY2D* wide) { return ::cuMemcpy2DAsync_v2(wide, hStream); });
}
CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1* pCopy) {
  return copy_box(pCopy, [](const CUDA_MEMCPY3D* wide) { return ::cuMemcpy3D_v2(wide); });
}
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1* pCopy, CUstream hStream) {
  return copy_box(pCopy,
                  [&](const CUDA_MEMCPY3D* wide) { return ::cuMemcpy3DAsync_v2(wide, hStream); });
}

// ---- memsets ----

CUresult cuMemsetD8(CUdeviceptr_v1 dstDevice, unsigned char uc, unsigned int N) {
  return ::cuMemsetD8_v2(dstDevice, uc, N);
}
CUresult cuMemsetD16(CUdeviceptr_v1 dstDevice, unsigned short us, unsigned int N) {
  return ::cuMemsetD16_v2(dstDevice, us, N);
}
CUresult cuMemsetD32(CUdeviceptr_v1 dstDevice, unsigned int ui, unsigned int N) {
  return ::cuMemsetD32_v2(dstDevice, ui, N);
}
CUresult cuMemsetD2D8(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned char uc,
                      unsigned int Width, unsigned int Height) {
  return ::cuMemsetD2D8_v2(dstDevice, dstPitch, uc, Width, Height);
}
CUresult cuMemsetD2D16(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned short us,
                       unsigned int Width, unsigned int Height) {
  return ::cuMemsetD2D16_v2(dstDevice, dstPitch, us, Width, Height);
}
CUresult cuMemsetD2D32(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned int ui,
                       unsigned int Width, unsigned int Height) {
  return ::cuMemsetD2D32_v2(dstDevice, dstPitch, ui, Width, Height);
}

// ---- arrays and texture references ----

CUresult cuArrayCreate(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR_v1* pAllocateArray) {
  if (pAllocateArray == nullptr) return ::cuArrayCreate_v2(pHandle, nullptr);
  const auto wide = widened(*pAllocateArray);
  return ::cuArrayCreate_v2(pHandle, &wide);
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1* pArrayDescriptor, CUarray hArray) {
  CUDA_ARRAY_DESCRIPTOR wide{};
  const CUresult r =
      ::cuArrayGetDescriptor_v2(pArrayDescriptor != nullptr ? &wide : nullptr, hArray);
  if (r != CUDA_SUCCESS) return r;
  pArrayDescriptor->Width = clamped(wide.Width);
  pArrayDescriptor->Height = clamped(wide.Height);
  pArrayDescriptor->Format = wide.Format;
  pArrayDescriptor->NumChannels = wide.NumChannels;
  return CUDA_SUCCESS;
}

CUresult cuArray3DCreate(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1* pAllocateArray) {
  if (pAllocateArray == nullptr) return ::cuArray3DCreate_v2(pHandle, nullptr);
  CUDA_ARRAY3D_DESCRIPTOR wide{};
  wide.Width = pAllocateArray->Width;
  wide.Height = pAllocateArray->Height;
  wide.Depth = pAllocateArray->Depth;
  wide.Format = pAllocateArray->Format;
  wide.NumChannels = pAllocateArray->NumChannels;
  wide.Flags = pAllocateArray->Flags;
  return ::cuArray3DCreate_v2(pHandle, &wide);
}

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1* pArrayDescriptor, CUarray hArray) {
  CUDA_ARRAY3D_DESCRIPTOR wide{};
  const CUresult r =
      ::cuArray3DGetDescriptor_v2(pArrayDescriptor != nullptr ? &wide : nullptr, hArray);
  if (r != CUDA_SUCCESS) return r;
  pArrayDescriptor->Width = clamped(wide.Width);
  pArrayDescriptor->Height = clamped(wide.Height);
  pArrayDescriptor->Depth = clamped(wide.Depth);
  pArrayDescriptor->Format = wide.Format;
  pArrayDescriptor->NumChannels = wide.NumChannels;
  pArrayDescriptor->Flags = wide.Flags;
  return CUDA_SUCCESS;
}

CUresult cuTexRefSetAddress(unsigned int* ByteOffset, CUtexref hTexRef, CUdeviceptr_v1 dptr,
                            unsigned int bytes) {
  std::size_t offset = 0;
  const CUresult r = ::cuTexRefSetAddress_v2(&offset, hTexRef, dptr, bytes);
  if (r == CUDA_SUCCESS && ByteOffset != nullptr) *ByteOffset = clamped(offset);
  return r;
}

CUresult cuTexRefSetAddress2D(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR_v1* desc,
                              CUdeviceptr_v1 dptr, unsigned int Pitch) {
  if (desc == nullptr) return ::cuTexRefSetAddress2D_v3(hTexRef, nullptr, dptr, Pitch);
  const auto wide = widened(*desc);
  return ::cuTexRefSetAddress2D_v3(hTexRef, &wide, dptr, Pitch);
}

CUresult cuTexRefGetAddress(CUdeviceptr_v1* pdptr, CUtexref hTexRef) {
  CUdeviceptr wide = 0;
  const CUresult r = ::cuTexRefGetAddress_v2(pdptr != nullptr ? &wide : nullptr, hTexRef);
  if (r != CUDA_SUCCESS) return r;
  if (!fits(wide)) return CUDA_ERROR_INVALID_VALUE;
  *pdptr = static_cast<CUdeviceptr_v1>(wide);
  return CUDA_SUCCESS;
}

}  // namespace custom
}  // namespace gpuwire::shim
