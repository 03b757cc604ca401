// SPDX-License-Identifier: Apache-2.0
// cuPointerGetAttribute(s): what is known about an address.
#include <cstring>

#include "context.hpp"
#include "guard.hpp"
#include "memory.hpp"
#include "pool.hpp"
#include "vmm.hpp"

using namespace gpuwire::softgpu;

namespace {

template <typename Value>
CUresult give(void* out, Value value) {
  std::memcpy(out, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUcontext owner_handle(unsigned id) {
  CUcontext found = nullptr;
  contexts().for_each_copy([&](const std::shared_ptr<context>& each) {
    if (each->id == id) found = each->handle;
  });
  return found;
}

// Of mapped memory it is the reservation, not the mapping.
std::pair<std::uint64_t, std::uint64_t> addressable_range(const allocation& range) {
  if (range.kind == memory_kind::mapped) {
    if (auto whole = reservation_at(range.base)) return *whole;
  }
  return {range.base, range.bytes};
}

unsigned long long allowed_handle_types(CUdeviceptr address) {
  const auto memory = physical_at(address);
  return memory ? memory->properties.requestedHandleTypes : 0;
}

CUresult attribute_of(const allocation& range, CUpointer_attribute attribute, CUdeviceptr address,
                      void* out) {
  const bool host = range.is_host();
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(out, owner_handle(range.context_id));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give<unsigned>(out, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host && !range.managed) return CUDA_ERROR_INVALID_VALUE;
      return give(out, address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give<unsigned>(out, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give<unsigned long long>(out, range.buffer_id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give<int>(out, range.device_ordinal);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give<CUdeviceptr>(out, addressable_range(range).first);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give<std::size_t>(out, addressable_range(range).second);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give<char>(out, 1);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give<char>(out, range.managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return give<char>(out, 0);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give<char>(out, range.kind == memory_kind::device);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give<unsigned long long>(out, allowed_handle_types(address));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give<int>(out, range.writable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                           : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: {
      const auto pool = pool_at(address);
      return give<CUmemoryPool>(out, pool ? pool->handle : nullptr);
    }
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return give<std::size_t>(out, range.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return give<CUdeviceptr>(out, range.base);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return give<unsigned long long>(out, range.buffer_id);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// What cuPointerGetAttributes says of memory that CUDA does not know: nulls, and the device ordinal
// -2.
CUresult attribute_of_unknown(CUpointer_attribute attribute, void* out) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give<unsigned>(out, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give<int>(out, -2);
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return give<char>(out, 0);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      break;
  }
  if (attribute < CU_POINTER_ATTRIBUTE_CONTEXT ||
      attribute > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return give<std::uint64_t>(out, 0);
}

}  // namespace

CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  return initialised([&] {
    require(out != nullptr);
    auto range = memory_table::instance().find(address);
    require(range.has_value());
    return attribute_of(*range, attribute, address, out);
  });
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** out,
                                CUdeviceptr address) {
  return initialised([&] {
    require(count > 0 && attributes != nullptr && out != nullptr);
    auto range = memory_table::instance().find(address);
    for (unsigned at = 0; at < count; ++at) {
      require(out[at] != nullptr);
      CUresult result = CUDA_ERROR_INVALID_VALUE;
      if (range) result = attribute_of(*range, attributes[at], address, out[at]);
      // An attribute that this memory does not have is no error here, unlike in the single query.
      if (result == CUDA_ERROR_INVALID_VALUE)
        result = attribute_of_unknown(attributes[at], out[at]);
      require(result == CUDA_SUCCESS, result);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  return initialised([&] {
    require(value != nullptr && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
    auto range = memory_table::instance().find(address);
    require(range && !range->is_host());
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}
