// SPDX-License-Identifier: Apache-2.0
// Pointer attributes, answered from the table of known memory.
#include <cstring>

#include "shim/contexts.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/memory.hpp"

namespace gpuwire::shim {
namespace {

template <class Value>
CUresult give(void* data, Value value) {
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

// An allocation that named no pool came from the device's current one.
CUmemoryPool pool_of(const memory_range& range) {
  if (range.value.kind != memory_kind::pool) return nullptr;
  if (range.value.owner != 0) return handle_from<CUmemoryPool>(range.value.owner);
  msg::cuDeviceGetMemPool::request q;
  q.pool_wanted = true;
  q.dev = device_ordinal(range.value.device);
  const auto a = cached_call<msg::cuDeviceGetMemPool>(q);
  return a.result == CUDA_SUCCESS ? handle_from<CUmemoryPool>(a.body.pool) : nullptr;
}

// INVALID_VALUE for what the driver does not say about this kind of memory.
CUresult attribute_of(const memory_range& range, std::uint64_t pointer,
                      CUpointer_attribute attribute, void* data) {
  const bool managed = range.value.kind == memory_kind::managed;
  const bool on_device = is_device_memory(range) || managed;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
      const context_record* c = state().contexts.find(range.value.context);
      return give(data, c != nullptr ? handle_of(*c) : CUcontext{});
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give<unsigned>(data, on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:  // asking alone does not flag host memory
      return range.value.direct != direct_access::refused ? give<CUdeviceptr>(data, pointer)
                                                          : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return is_device_memory(range) ? CUDA_ERROR_INVALID_VALUE
                                     : give(data, reinterpret_cast<void*>(pointer));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give<unsigned>(data, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give<unsigned long long>(data, range.value.buffer_id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give<unsigned>(data, managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give<int>(data, range.value.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give<unsigned>(data, range.value.kind == memory_kind::device ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give<CUdeviceptr>(data, range.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give<std::size_t>(data, range.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give<unsigned>(data, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give<unsigned long long>(data, 0);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return give<unsigned>(data, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give<unsigned>(data, range.value.direct != direct_access::refused
                                      ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                      : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give<CUmemoryPool>(data, pool_of(range));
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return give<std::size_t>(data, range.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return give<CUdeviceptr>(data, range.base);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return give<unsigned long long>(data, range.value.buffer_id);
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return give<unsigned>(data, 0);
    default:
      return CUDA_ERROR_INVALID_VALUE;  // P2P_TOKENS among them: the client's network cards are
                                        // elsewhere
  }
}

// The plural form answers for memory that CUDA does not know, and for what an attribute cannot say,
// with its zero.
CUresult attribute_or_zero(const std::optional<memory_range>& range, std::uint64_t pointer,
                           CUpointer_attribute attribute, void* data) {
  if (range && attribute_of(*range, pointer, attribute, data) == CUDA_SUCCESS) return CUDA_SUCCESS;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return give<std::uint64_t>(data, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give<int>(data, -2);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return give<unsigned>(data, 0);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

namespace custom {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto range = state().memory.find(ptr);
  return range ? attribute_of(*range, ptr, attribute, data) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes,
                                void** data, CUdeviceptr ptr) {
  if (numAttributes == 0 || attributes == nullptr || data == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const auto range = state().memory.find(ptr);
  for (unsigned i = 0; i < numAttributes; ++i) {
    if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = attribute_or_zero(range, ptr, attributes[i], data[i]); r != CUDA_SUCCESS)
      return r;
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    return CUDA_ERROR_INVALID_VALUE;
  const auto range = state().memory.find(ptr);
  if (!range || !is_device_memory(*range)) return CUDA_ERROR_INVALID_VALUE;
  int wanted = 0;
  std::memcpy(&wanted, value, sizeof wanted);
  if (wanted == 0) return CUDA_SUCCESS;
  return refuse("cuPointerSetAttribute of SYNC_MEMOPS");
}

}  // namespace custom
}  // namespace gpuwire::shim
