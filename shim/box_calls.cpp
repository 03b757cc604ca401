// SPDX-License-Identifier: Apache-2.0
// The driver's functions that copy boxes, arrays and batches, brought to the form of boxes.hpp.
#include "shim/boxes.hpp"
#include "shim/contexts.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"

namespace gpuwire::shim {
namespace {

std::uint64_t number_of(const void* host) {
  return reinterpret_cast<std::uint64_t>(host);
}

template <class Copy>
box_end source_of(const Copy& c) {
  box_end end;
  end.kind = c.srcMemoryType;
  end.address = c.srcMemoryType == CU_MEMORYTYPE_HOST ? number_of(c.srcHost) : c.srcDevice;
  end.array = id_of(c.srcArray);
  end.x = c.srcXInBytes;
  end.y = c.srcY;
  end.pitch = c.srcPitch;
  return end;
}

template <class Copy>
box_end destination_of(const Copy& c) {
  box_end end;
  end.kind = c.dstMemoryType;
  end.address = c.dstMemoryType == CU_MEMORYTYPE_HOST ? number_of(c.dstHost) : c.dstDevice;
  end.array = id_of(c.dstArray);
  end.x = c.dstXInBytes;
  end.y = c.dstY;
  end.pitch = c.dstPitch;
  return end;
}

CUresult copy_2d(const CUDA_MEMCPY2D* c, CUstream stream, bool synchronous) {
  const CUresult r = find_stream(synchronous ? nullptr : stream).result;
  if (r != CUDA_SUCCESS) return r;
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_box(source_of(*c), destination_of(*c), {c->WidthInBytes, c->Height, 1},
                  box_form::two_dimensions, stream, synchronous);
}

template <class Copy>
CUresult copy_3d(const Copy* c, box_form form, CUstream stream, bool synchronous) {
  const CUresult r = find_stream(synchronous ? nullptr : stream).result;
  if (r != CUDA_SUCCESS) return r;
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  box_end from = source_of(*c), to = destination_of(*c);
  from.z = c->srcZ;
  from.level = c->srcLOD;
  from.height = c->srcHeight;
  to.z = c->dstZ;
  to.level = c->dstLOD;
  to.height = c->dstHeight;
  if constexpr (std::is_same_v<Copy, CUDA_MEMCPY3D_PEER>) {
    from.context = id_of(c->srcContext);
    to.context = id_of(c->dstContext);
    if (find_context(from.context) == nullptr || find_context(to.context) == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
  }
  return copy_box(from, to, {c->WidthInBytes, c->Height, c->Depth}, form, stream, synchronous);
}

box_end array_end(CUarray array, std::size_t offset) {
  box_end end;
  end.kind = CU_MEMORYTYPE_ARRAY;
  end.array = id_of(array);
  end.x = offset;
  return end;
}
box_end memory_end(CUmemorytype kind, std::uint64_t address) {
  box_end end;
  end.kind = kind;
  end.address = address;
  return end;
}

CUresult copy_run(const box_end& from, const box_end& to, std::size_t bytes, CUstream stream,
                  bool synchronous) {
  return copy_box(from, to, {bytes, 1, 1}, box_form::three_dimensions, stream, synchronous);
}

}  // namespace

namespace custom {

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
  return copy_2d(pCopy, nullptr, true);
}
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) {
  return copy_2d(pCopy, nullptr, true);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return copy_2d(pCopy, hStream, false);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
  return copy_3d(pCopy, box_form::three_dimensions, nullptr, true);
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  return copy_3d(pCopy, box_form::three_dimensions, hStream, false);
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
  return copy_3d(pCopy, box_form::peer, nullptr, true);
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
  return copy_3d(pCopy, box_form::peer, hStream, false);
}

// ---- arrays, one row of them ----

CUresult cuMemcpyAtoH_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  return copy_run(array_end(srcArray, srcOffset),
                  memory_end(CU_MEMORYTYPE_HOST, number_of(dstHost)), ByteCount, nullptr, true);
}
CUresult cuMemcpyAtoHAsync_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
                              CUstream hStream) {
  return copy_run(array_end(srcArray, srcOffset),
                  memory_end(CU_MEMORYTYPE_HOST, number_of(dstHost)), ByteCount, hStream, false);
}
CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void* srcHost,
                         size_t ByteCount) {
  return copy_run(memory_end(CU_MEMORYTYPE_HOST, number_of(srcHost)),
                  array_end(dstArray, dstOffset), ByteCount, nullptr, true);
}
CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void* srcHost,
                              size_t ByteCount, CUstream hStream) {
  return copy_run(memory_end(CU_MEMORYTYPE_HOST, number_of(srcHost)),
                  array_end(dstArray, dstOffset), ByteCount, hStream, false);
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
                         size_t ByteCount) {
  return copy_run(array_end(srcArray, srcOffset), memory_end(CU_MEMORYTYPE_DEVICE, dstDevice),
                  ByteCount, nullptr, true);
}
CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
                         size_t ByteCount) {
  return copy_run(memory_end(CU_MEMORYTYPE_DEVICE, srcDevice), array_end(dstArray, dstOffset),
                  ByteCount, nullptr, true);
}
CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
                         size_t ByteCount) {
  return copy_run(array_end(srcArray, srcOffset), array_end(dstArray, dstOffset), ByteCount,
                  nullptr, true);
}

// ---- batches: the copies of one are in no order among themselves, so any order will do ----

namespace {

CUresult check_batch(const CUmemcpyAttributes* attributes, const size_t* indices, size_t count,
                     size_t copies) {
  if (attributes == nullptr || indices == nullptr || count == 0 || count > copies ||
      indices[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0 && (indices[i] <= indices[i - 1] || indices[i] >= copies))
      return CUDA_ERROR_INVALID_VALUE;
    if (attributes[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
        attributes[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// The driver refuses the default streams for batches.
CUresult check_stream(CUstream stream) {
  const auto target = find_stream(stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  return target.id < 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool operand(const CUmemcpy3DOperand& o, box_end& end) {
  switch (o.type) {
    case CU_MEMCPY_OPERAND_TYPE_POINTER:
      end.kind = CU_MEMORYTYPE_UNIFIED;
      end.address = o.op.ptr.ptr;
      end.pitch = o.op.ptr.rowLength;
      end.height = o.op.ptr.layerHeight;
      return true;
    case CU_MEMCPY_OPERAND_TYPE_ARRAY:
      end = array_end(o.op.array.array, o.op.array.offset.x);
      end.y = o.op.array.offset.y;
      end.z = o.op.array.offset.z;
      return true;
    default:
      return false;
  }
}

// Bytes of an element; extents and offsets of a batch count elements where an array takes part. 0:
// no such array.
CUresult element_bytes(const CUmemcpy3DOperand& o, std::size_t& bytes) {
  if (o.type != CU_MEMCPY_OPERAND_TYPE_ARRAY) return CUDA_SUCCESS;
  msg::cuArray3DGetDescriptor_v2::request q;
  q.hArray = id_of(o.op.array.array);
  q.pArrayDescriptor_wanted = true;
  const auto a = call<msg::cuArray3DGetDescriptor_v2>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  switch (static_cast<CUarray_format>(a.body.pArrayDescriptor.Format)) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      bytes = a.body.pArrayDescriptor.NumChannels;
      return CUDA_SUCCESS;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      bytes = 2u * a.body.pArrayDescriptor.NumChannels;
      return CUDA_SUCCESS;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      bytes = 4u * a.body.pArrayDescriptor.NumChannels;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult batch_copy(const CUDA_MEMCPY3D_BATCH_OP& op, CUstream stream) {
  box_end from, to;
  if (!operand(op.src, from) || !operand(op.dst, to)) return CUDA_ERROR_INVALID_VALUE;
  std::size_t element = 1;
  if (const CUresult r = element_bytes(op.src, element); r != CUDA_SUCCESS) return r;
  if (const CUresult r = element_bytes(op.dst, element); r != CUDA_SUCCESS) return r;
  from.x *= element;
  to.x *= element;
  from.pitch *= element;
  to.pitch *= element;
  return copy_box(from, to, {op.extent.width * element, op.extent.height, op.extent.depth},
                  box_form::three_dimensions, stream, false);
}

}  // namespace

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                               CUstream hStream) {
  if (const CUresult r = check_stream(hStream); r != CUDA_SUCCESS) return r;
  if (dsts == nullptr || srcs == nullptr || sizes == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_batch(attrs, attrsIdxs, numAttrs, count); r != CUDA_SUCCESS)
    return r;
  for (std::size_t i = 0; i < count; ++i)
    if (dsts[i] == 0 || srcs[i] == 0 || sizes[i] == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const CUresult r = custom::cuMemcpyAsync(dsts[i], srcs[i], sizes[i], hStream);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                            size_t* failIdx, CUstream hStream) {
  // Before cuInit this entry answers unlike its per-thread one.
  const auto early =
      self().per_thread_stream_depth != 0 ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = admit("cuMemcpyBatchAsync", early); r != CUDA_SUCCESS) return r;
  if (failIdx != nullptr) *failIdx = SIZE_MAX;
  return custom::cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs,
                                       hStream);
}

CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                 unsigned long long flags, CUstream hStream) {
  if (const CUresult r = check_stream(hStream); r != CUDA_SUCCESS) return r;
  if (numOps == 0 || opList == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < numOps; ++i)
    if (const CUresult r = batch_copy(opList[i], hStream); r != CUDA_SUCCESS) return r;
  return CUDA_SUCCESS;
}

CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                              unsigned long long flags, CUstream hStream) {
  if (failIdx != nullptr) *failIdx = SIZE_MAX;
  return custom::cuMemcpy3DBatchAsync_v2(numOps, opList, flags, hStream);
}

}  // namespace custom
}  // namespace gpuwire::shim
