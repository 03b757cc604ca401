// SPDX-License-Identifier: Apache-2.0
#include "vmm.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard.hpp"
#include "handles.hpp"
#include "memory.hpp"
#include "shared_file.hpp"

namespace gpuwire::softgpu {
namespace {

std::uint16_t bit_of(int ordinal) {
  return static_cast<std::uint16_t>(1u << ordinal);
}

void place(std::uint64_t base, std::uint64_t bytes, int file, std::uint64_t offset) {
  void* got = mmap(reinterpret_cast<void*>(base), bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(offset));
  require(got != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
}

// A kernel that still writes here must not end the process: it meets memory of nobody, which costs
// nothing until then.
void place_nothing(std::uint64_t base, std::uint64_t bytes) {
  mmap(reinterpret_cast<void*>(base), bytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace

physical_memory::physical_memory(device& on, const CUmemAllocationProp& properties,
                                 std::uint64_t bytes, int file, bool imported)
    : on(on), properties(properties), bytes(bytes), file(file), imported(imported) {}

physical_memory::~physical_memory() {
  close(file);
  if (!imported) memory_table::instance().discharge(on, bytes);
}

address_space& address_space::instance() {
  static auto* only = new address_space;
  return *only;
}

// ---- reservations
// -------------------------------------------------------------------------------------------------

std::uint64_t address_space::reserve(std::uint64_t bytes, std::uint64_t align, std::uint64_t hint) {
  require(bytes > 0 && bytes % vmm_granularity == 0 && hint % vmm_granularity == 0 &&
          (align & (align - 1)) == 0);
  auto base = reserve_addresses(bytes, std::max(align, vmm_granularity), hint);
  require(base.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
  std::lock_guard lock(mutex_);
  reserved_.emplace(*base, bytes);
  memory_table::instance().add_reservation(*base, bytes);
  return *base;
}

void address_space::free(std::uint64_t base, std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  auto found = reserved_.find(base);
  require(found != reserved_.end() && found->second == bytes);
  auto inside = mapped_.lower_bound(base);
  require(inside == mapped_.end() || inside->first >= base + bytes);
  reserved_.erase(found);
  memory_table::instance().remove_reservation(base);
  munmap(reinterpret_cast<void*>(base), bytes);
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> address_space::reservation_of(
    std::uint64_t address) {
  std::lock_guard lock(mutex_);
  return reservation_around(address);
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> address_space::reservation_around(
    std::uint64_t address) const {
  auto after = reserved_.upper_bound(address);
  if (after == reserved_.begin()) return std::nullopt;
  --after;
  if (address - after->first >= after->second) return std::nullopt;
  return *after;
}

// ---- physical memory
// ----------------------------------------------------------------------------------------------

CUmemGenericAllocationHandle address_space::add(std::shared_ptr<physical_memory> made) {
  std::lock_guard lock(mutex_);
  made->handle = (static_cast<std::uint64_t>(handle_kind::physical) << 40) | (++last_handle_ << 4);
  made->references = 1;
  handles_.emplace(made->handle, made);
  return made->handle;
}

CUmemGenericAllocationHandle address_space::create(device& on, const CUmemAllocationProp& wanted,
                                                   std::uint64_t bytes) {
  require(memory_table::instance().charge(on, bytes), CUDA_ERROR_OUT_OF_MEMORY);
  const int file = memfd_create(memory_file_name(on.ordinal).c_str(), MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    if (file >= 0) close(file);
    memory_table::instance().discharge(on, bytes);
    refuse(CUDA_ERROR_OUT_OF_MEMORY);
  }
  return add(std::make_shared<physical_memory>(on, wanted, bytes, file, false));
}

std::shared_ptr<physical_memory> address_space::memory_of(CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(mutex_);
  auto found = handles_.find(handle);
  require(found != handles_.end());
  return found->second;
}

void address_space::release(CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(mutex_);
  auto found = handles_.find(handle);
  require(found != handles_.end());
  if (--found->second->references == 0) handles_.erase(found);
}

CUmemGenericAllocationHandle address_space::retain_at(std::uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = mapping_at(address);
  require(found != mapped_.end());
  const auto& memory = found->second.memory;
  ++memory->references;
  handles_[memory->handle] = memory;  // it may have been released before
  return memory->handle;
}

int address_space::export_file(CUmemGenericAllocationHandle handle) {
  auto memory = memory_of(handle);
  require((memory->properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) !=
          0);
  const int copy = fcntl(memory->file, F_DUPFD_CLOEXEC, 0);
  require(copy >= 0, CUDA_ERROR_OUT_OF_MEMORY);
  return copy;
}

CUmemGenericAllocationHandle address_space::import_file(int file) {
  struct stat state {};
  const int ordinal = device_of_memory_file(file);
  require(ordinal >= 0 && static_cast<std::size_t>(ordinal) < devices().size() &&
              fstat(file, &state) == 0 && state.st_size > 0,
          CUDA_ERROR_UNKNOWN);
  const int copy = fcntl(file, F_DUPFD_CLOEXEC, 0);
  require(copy >= 0, CUDA_ERROR_OUT_OF_MEMORY);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  return add(std::make_shared<physical_memory>(
      device_of(ordinal), properties, static_cast<std::uint64_t>(state.st_size), copy, true));
}

// ---- mappings
// -----------------------------------------------------------------------------------------------------

address_space::mappings::iterator address_space::mapping_at(std::uint64_t address) {
  auto after = mapped_.upper_bound(address);
  if (after == mapped_.begin()) return mapped_.end();
  --after;
  return address - after->first < after->second.bytes ? after : mapped_.end();
}

std::pair<address_space::mappings::iterator, address_space::mappings::iterator>
address_space::exactly(std::uint64_t base, std::uint64_t bytes) {
  auto first = mapped_.find(base), last = first;
  require(bytes > 0);
  while (bytes > 0) {
    require(last != mapped_.end() && last->first == base && last->second.bytes <= bytes);
    base += last->second.bytes;
    bytes -= last->second.bytes;
    ++last;
  }
  return {first, last};
}

void address_space::enter(std::uint64_t base, mapping& which) {
  allocation part;
  part.base = base;
  part.bytes = which.bytes;
  part.kind = memory_kind::mapped;
  part.device_ordinal = which.memory->on.ordinal;
  part.readers = which.readers;
  part.writers = which.writers;
  part.buffer_id = which.buffer_id;
  which.buffer_id = memory_table::instance().enter(part);
}

void address_space::map(std::uint64_t base, std::uint64_t bytes, std::uint64_t offset,
                        CUmemGenericAllocationHandle handle) {
  auto memory = memory_of(handle);
  require(bytes > 0 && bytes % vmm_granularity == 0 && base % vmm_granularity == 0);
  // Parts of memory cannot be mapped.
  require(offset == 0 && bytes == memory->bytes, CUDA_ERROR_NOT_SUPPORTED);
  std::lock_guard lock(mutex_);
  const auto around = reservation_around(base);
  require(around && bytes <= around->second - (base - around->first));
  auto next = mapped_.lower_bound(base);
  require(mapping_at(base) == mapped_.end());
  require(next == mapped_.end() || next->first >= base + bytes);
  place(base, bytes, memory->file, offset);
  mapping made;
  made.bytes = bytes;
  made.memory = std::move(memory);
  enter(base, made);
  mapped_.emplace(base, std::move(made));
}

// Gaps in the range are no error, parts of mappings are.
void address_space::unmap(std::uint64_t base, std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto around = reservation_around(base);
  require(around && bytes > 0 && bytes <= around->second - (base - around->first));
  const auto before = mapping_at(base), after = mapping_at(base + bytes);
  require(before == mapped_.end() || before->first == base);
  require(after == mapped_.end() || after->first == base + bytes);
  const auto first = mapped_.lower_bound(base), last = mapped_.lower_bound(base + bytes);
  for (auto each = first; each != last; ++each)
    memory_table::instance().remove_entry(each->first, each->second.buffer_id);
  mapped_.erase(first, last);
  place_nothing(base, bytes);
}

void address_space::set_access(std::uint64_t base, std::uint64_t bytes, int device_ordinal,
                               CUmemAccess_flags flags) {
  const std::uint16_t bit = bit_of(device_ordinal);
  const auto set = [bit](std::uint16_t& mask, bool on) {
    mask = static_cast<std::uint16_t>(on ? mask | bit : mask & ~bit);
  };
  std::lock_guard lock(mutex_);
  auto [first, last] = exactly(base, bytes);
  for (auto each = first; each != last; ++each) {
    set(each->second.readers, flags != CU_MEM_ACCESS_FLAGS_PROT_NONE);
    set(each->second.writers, flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    enter(each->first, each->second);
  }
}

CUmemAccess_flags address_space::access_of(std::uint64_t address, int device_ordinal) {
  std::lock_guard lock(mutex_);
  auto found = mapping_at(address);
  require(found != mapped_.end());
  const std::uint16_t bit = bit_of(device_ordinal);
  if ((found->second.writers & bit) != 0) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if ((found->second.readers & bit) != 0) return CU_MEM_ACCESS_FLAGS_PROT_READ;
  return CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

std::shared_ptr<physical_memory> address_space::mapped_at(std::uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = mapping_at(address);
  return found == mapped_.end() ? nullptr : found->second.memory;
}

std::shared_ptr<physical_memory> physical_at(std::uint64_t address) {
  return address_space::instance().mapped_at(address);
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> reservation_at(std::uint64_t address) {
  return address_space::instance().reservation_of(address);
}

}  // namespace gpuwire::softgpu
