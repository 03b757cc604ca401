// SPDX-License-Identifier: Apache-2.0
// Virtual memory management. Only device memory can be created, and a POSIX descriptor is the only
// kind of handle that another process can be given.
#include "guard.hpp"
#include "vmm.hpp"

using namespace gpuwire::softgpu;

namespace {

bool is_host(CUmemLocationType type) {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

device& checked(const CUmemAllocationProp* wanted) {
  require(wanted != nullptr && wanted->type == CU_MEM_ALLOCATION_TYPE_PINNED);
  require(!is_host(wanted->location.type), CUDA_ERROR_NOT_SUPPORTED);
  require(wanted->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  auto& on = device_of(wanted->location.id);
  constexpr unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
  const auto types = static_cast<unsigned>(wanted->requestedHandleTypes);
  require((types & ~known) == 0);
  // As natively where no fabric is set up.
  require((types & CU_MEM_HANDLE_TYPE_FABRIC) == 0, CUDA_ERROR_NOT_PERMITTED);
  return on;
}

}  // namespace

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t align, CUdeviceptr hint,
                             unsigned long long flags) {
  return initialised([&] {
    require(out != nullptr && flags == 0);
    *out = address_space::instance().reserve(bytes, align, hint);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes) {
  return initialised([&] {
    address_space::instance().free(base, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                     const CUmemAllocationProp* wanted, unsigned long long flags) {
  return initialised([&] {
    require(out != nullptr && flags == 0);
    auto& on = checked(wanted);
    require(bytes > 0 && bytes % vmm_granularity == 0);
    // Memory for sparse arrays and for the decompression engine: there is neither.
    require(wanted->allocFlags.usage == 0, CUDA_ERROR_NOT_SUPPORTED);
    CUmemAllocationProp given = *wanted;
    given.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;  // it was a hint
    given.allocFlags.gpuDirectRDMACapable = 0;
    *out = address_space::instance().create(on, given, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return initialised([&] {
    address_space::instance().release(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemMap(CUdeviceptr base, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return initialised([&] {
    require(flags == 0);
    address_space::instance().map(base, bytes, offset, handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemUnmap(CUdeviceptr base, size_t bytes) {
  return initialised([&] {
    address_space::instance().unmap(base, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemSetAccess(CUdeviceptr base, size_t bytes, const CUmemAccessDesc* list, size_t count) {
  return initialised([&] {
    require(list != nullptr && count > 0);
    for (size_t at = 0; at < count; ++at) {
      require(!is_host(list[at].location.type), CUDA_ERROR_NOT_SUPPORTED);
      require(list[at].location.type == CU_MEM_LOCATION_TYPE_DEVICE);
      device_of(list[at].location.id);
      require(list[at].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
              list[at].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
              list[at].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    for (size_t at = 0; at < count; ++at)
      address_space::instance().set_access(base, bytes, list[at].location.id, list[at].flags);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  return initialised([&] {
    require(flags != nullptr && location != nullptr);
    require(!is_host(location->type), CUDA_ERROR_NOT_SUPPORTED);
    require(location->type == CU_MEM_LOCATION_TYPE_DEVICE);
    *flags = address_space::instance().access_of(address, device_of(location->id).ordinal);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* wanted,
                                       CUmemAllocationGranularity_flags option) {
  return initialised([&] {
    require(bytes != nullptr);
    checked(wanted);
    require(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM ||
            option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    *bytes = vmm_granularity;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                CUmemGenericAllocationHandle handle) {
  return initialised([&] {
    require(out != nullptr);
    *out = address_space::instance().memory_of(handle)->properties;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  return initialised([&] {
    require(out != nullptr);
    *out = address_space::instance().retain_at(reinterpret_cast<std::uint64_t>(address));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return initialised([&] {
    require(out != nullptr && flags == 0);
    require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    *static_cast<int*>(out) = address_space::instance().export_file(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* os_handle,
                                        CUmemAllocationHandleType type) {
  return initialised([&] {
    require(out != nullptr && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    *out = address_space::instance().import_file(
        static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle)));
    return CUDA_SUCCESS;
  });
}
