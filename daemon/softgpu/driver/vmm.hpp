// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: physical memory that is mapped into reserved addresses.
//
// Physical memory is an anonymous file, so that it can be mapped more than once and handed to
// another process as a descriptor. Everything here is guarded by one mutex of its own, above that
// of the memory table; compute threads see mappings through that table only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "device.hpp"

namespace gpuwire::softgpu {

constexpr std::uint64_t vmm_granularity = 2ull << 20;

// Freed with its last handle reference and its last mapping.
struct physical_memory {
  physical_memory(device& on, const CUmemAllocationProp& properties, std::uint64_t bytes, int file,
                  bool imported);
  ~physical_memory();
  physical_memory(const physical_memory&) = delete;
  physical_memory& operator=(const physical_memory&) = delete;

  device& on;
  const CUmemAllocationProp properties;
  const std::uint64_t bytes;
  const int file;
  const bool imported;  // it counts as used in the process that made it
  CUmemGenericAllocationHandle handle = 0;
  unsigned references = 0;  // of the handle: it is valid while there are any
};

// All of them refuse with CUDA_ERROR_INVALID_VALUE what is not as the driver wants it.
class address_space {
 public:
  static address_space& instance();

  std::uint64_t reserve(std::uint64_t bytes, std::uint64_t align, std::uint64_t hint);
  void free(std::uint64_t base, std::uint64_t bytes);

  CUmemGenericAllocationHandle create(device& on, const CUmemAllocationProp& wanted,
                                      std::uint64_t bytes);
  void release(CUmemGenericAllocationHandle handle);
  std::shared_ptr<physical_memory> memory_of(CUmemGenericAllocationHandle handle);
  // One more reference to the handle of the memory that is mapped at the address.
  CUmemGenericAllocationHandle retain_at(std::uint64_t address);
  // A descriptor that the caller owns.
  int export_file(CUmemGenericAllocationHandle handle);
  CUmemGenericAllocationHandle import_file(int file);

  void map(std::uint64_t base, std::uint64_t bytes, std::uint64_t offset,
           CUmemGenericAllocationHandle handle);
  void unmap(std::uint64_t base, std::uint64_t bytes);
  void set_access(std::uint64_t base, std::uint64_t bytes, int device_ordinal,
                  CUmemAccess_flags flags);
  CUmemAccess_flags access_of(std::uint64_t address, int device_ordinal);

  std::shared_ptr<physical_memory> mapped_at(std::uint64_t address);
  std::optional<std::pair<std::uint64_t, std::uint64_t>> reservation_of(std::uint64_t address);

 private:
  struct mapping {
    std::uint64_t bytes = 0;
    std::shared_ptr<physical_memory> memory;
    std::uint64_t buffer_id = 0;
    std::uint16_t readers = 0;
    std::uint16_t writers = 0;
  };
  using mappings = std::map<std::uint64_t, mapping>;

  CUmemGenericAllocationHandle add(std::shared_ptr<physical_memory> made);
  std::optional<std::pair<std::uint64_t, std::uint64_t>> reservation_around(
      std::uint64_t address) const;
  // The mappings that make up exactly this range.
  std::pair<mappings::iterator, mappings::iterator> exactly(std::uint64_t base,
                                                            std::uint64_t bytes);
  mappings::iterator mapping_at(std::uint64_t address);
  void enter(std::uint64_t base, mapping& which);

  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> reserved_;  // base -> bytes
  mappings mapped_;
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<physical_memory>> handles_;
  std::uint64_t last_handle_ = 0;
};

// For cuPointerGetAttribute: null and nothing for memory of another kind.
std::shared_ptr<physical_memory> physical_at(std::uint64_t address);
std::optional<std::pair<std::uint64_t, std::uint64_t>> reservation_at(std::uint64_t address);

}  // namespace gpuwire::softgpu
