// SPDX-License-Identifier: Apache-2.0
#include "shim/memory.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "shim/direct_memory.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/host_window.hpp"
#include "shim/log.hpp"
#include "shim/pinned.hpp"
#include "shim/reservations.hpp"

namespace gpuwire::shim {
namespace {

constexpr int placement_tries = 8;

reservations& addresses() {
  static auto* r = new reservations;
  return *r;
}

// Addresses that were freed and not given out again; a bounded memory of the latest.
class freed_ranges {
 public:
  void add(std::uint64_t base, std::uint64_t bytes) {
    if (count_.fetch_add(1) >= count_max) {
      count_.store(1);
      ranges_.erase_if([](const auto&) { return true; }, [](const auto&) {});
    }
    ranges_.insert(base, bytes, {});
  }
  void given_out(std::uint64_t base, std::uint64_t bytes) {
    if (count_.load() == 0) return;
    ranges_.erase_if(
        [&](const auto& range) {
          return range.base < base + bytes && base < range.base + range.bytes;
        },
        [](const auto&) {});
  }
  bool holds(std::uint64_t address) const { return ranges_.covers(address, 1); }

 private:
  struct nothing {};
  static constexpr unsigned count_max = 1024;
  std::atomic<unsigned> count_{0};
  interval_map<nothing> ranges_;
};

freed_ranges& freed() {
  static auto* f = new freed_ranges;
  return *f;
}

std::uint64_t next_buffer_id() {
  return state().buffer_ids.fetch_add(1, std::memory_order_relaxed) + 1;
}

// The driver's size of an allocation may be larger than asked, what pointer queries report is what
// was asked.
bool keep(std::uint64_t address, std::uint64_t bytes) {
  return keep_device_range(address, bytes, new_memory_entry(memory_kind::device));
}

struct allocation_request {
  std::uint64_t bytes = 0, height = 0;
  unsigned element_bytes = 0;
  bool pitched = false;
};

CUresult allocate(const allocation_request& wanted, CUdeviceptr* dptr, std::size_t* pitch) {
  msg::memory_allocate::request q;
  q.bytes = wanted.bytes;
  q.pitched = wanted.pitched;
  q.height = wanted.height;
  q.element_bytes = wanted.element_bytes;
  for (int i = 0; i < placement_tries; ++i) {
    const auto a = call<msg::memory_allocate>(q);
    if (a.result != CUDA_SUCCESS) return a.result;
    const std::uint64_t bytes = wanted.pitched ? a.body.pitch * wanted.height : wanted.bytes;
    if (keep(a.body.address, bytes)) {
      *dptr = a.body.address;
      if (pitch != nullptr) *pitch = a.body.pitch;
      return CUDA_SUCCESS;
    }
    log_debug("the server's address {:#x} ({} bytes) is in use in this process, asking for another",
              a.body.address, bytes);
    q.replaces = a.body.address;
  }
  msg::memory_free::request release;
  release.address = q.replaces;
  const CUresult released = call<msg::memory_free>(release).result;
  write_line("no device address of the server is free in this process; the allocation fails");
  return released == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : released;
}

void release_range(const memory_range& range) {
  if (is_shared_memory(range)) end_direct(range.base);
  else if (!is_device_memory(range)) host_range_went();
  switch (range.value.kind) {
    case memory_kind::device:
    case memory_kind::global:
    case memory_kind::pool:
    case memory_kind::graph:
    case memory_kind::shared:
    case memory_kind::managed:
      addresses().give_back(range.base, range.bytes);
      break;
    case memory_kind::pinned:
      release_mirror(range);
      pinned_window().release(reinterpret_cast<void*>(range.base), range.bytes);
      break;
    case memory_kind::registered:
      release_mirror(range);
      break;
    case memory_kind::mapped:  // the reservation stays
      break;
  }
}

bool overlaps(const memory_range& range, std::uint64_t base, std::uint64_t bytes) {
  return range.base < base + bytes && base < range.base + range.bytes;
}

}  // namespace

memory_entry new_memory_entry(memory_kind kind) {
  const context_record* c = self().current();
  memory_entry e;
  e.kind = kind;
  e.context = c != nullptr ? c->index : 0;
  e.device = c != nullptr ? c->device : 0;
  e.buffer_id = next_buffer_id();
  return e;
}

bool keep_device_range(std::uint64_t address, std::uint64_t bytes, const memory_entry& entry) {
  if (!addresses().take(address, bytes)) return false;
  if (!state().memory.insert(address, bytes, entry)) {
    state().memory.erase_if(
        [&](const memory_range& r) {
          return (r.value.kind == memory_kind::graph || r.value.kind == memory_kind::pool) &&
                 overlaps(r, address, bytes);
        },
        release_range);
    if (!state().memory.insert(address, bytes, entry)) {
      addresses().give_back(address, bytes);
      return false;
    }
  }
  freed().given_out(address, bytes);
  return true;
}

std::optional<memory_range> forget_device_range(std::uint64_t address, memory_kind kind) {
  const auto range = state().memory.find(address);
  if (!range || range->base != address || range->value.kind != kind) return std::nullopt;
  auto taken = state().memory.erase(address);
  if (!taken) return std::nullopt;
  freed().add(taken->base, taken->bytes);
  release_range(*taken);
  return taken;
}

namespace {

// What a program reserved, by its first address.
struct reserved_range {};
interval_map<reserved_range>& reserved_ranges() {
  static auto* r = new interval_map<reserved_range>;
  return *r;
}

// Mapped ranges lie side by side, and a copy may run through several.
bool is_known_mapped_range(memory_range range, std::uint64_t address, std::uint64_t bytes) {
  const context_record* c = self().current();
  const unsigned device = 1u << (c != nullptr ? static_cast<unsigned>(c->device) & 31u : 0u);
  for (;;) {
    if (range.value.kind != memory_kind::mapped || (range.value.flags & device) == 0) return false;
    if (range.contains(address, bytes)) return true;
    const std::uint64_t here = range.bytes - (address - range.base);
    address += here;
    bytes -= here;
    const auto next = state().memory.find(address);
    if (!next) return false;
    range = *next;
  }
}

}  // namespace

bool is_reserved_device_address(std::uint64_t address) {
  return reserved_ranges().covers(address, 1);
}
bool reserve_device_addresses(std::uint64_t address, std::uint64_t bytes) {
  if (!addresses().take(address, bytes)) return false;
  freed().given_out(address, bytes);  // the driver may reserve where an allocation was
  if (reserved_ranges().insert(address, bytes, {})) return true;
  addresses().give_back(address, bytes);
  return false;
}
void free_device_addresses(std::uint64_t address) {
  if (const auto gone = reserved_ranges().erase(address)) addresses().give_back(gone->base, gone->bytes);
}

bool is_known_device_range(std::uint64_t address, std::uint64_t bytes) {
  const auto range = state().memory.find(address);
  if (!range || !is_on_server(*range)) return false;
  switch (range->value.kind) {
    case memory_kind::graph:  // the graph may have freed it
      return false;
    case memory_kind::mapped:
      return is_known_mapped_range(*range, address, bytes);
    default:
      return range->contains(address, bytes);
  }
}

bool is_freed_device_memory(std::uint64_t address) {
  return freed().holds(address);
}

bool leaves_known_device_memory(std::uint64_t address, std::uint64_t bytes) {
  auto range = state().memory.find(address);
  if (!range || !is_on_server(*range)) return false;
  while (range && is_on_server(*range)) {
    if (range->contains(address, bytes)) return false;
    const std::uint64_t here = range->bytes - (address - range->base);
    address += here;
    bytes -= here;
    range = state().memory.find(address);
  }
  return true;
}

void learn_global(std::uint64_t address, std::uint64_t bytes, std::uint64_t image) {
  if (bytes == 0 || state().memory.find(address)) return;
  freed().given_out(address, bytes);  // the driver may put a variable where an allocation was
  if (!addresses().take(address, bytes)) {
    log_debug("the address {:#x} of a device variable is in use in this process", address);
    return;
  }
  memory_entry e = new_memory_entry(memory_kind::global);
  e.owner = image;
  if (!state().memory.insert(address, bytes, e)) addresses().give_back(address, bytes);
}

bool keep_managed(std::uint64_t address, std::uint64_t bytes, std::uint64_t owner) {
  if (!addresses().take(address, bytes)) return false;
  memory_entry e = new_memory_entry(memory_kind::managed);
  e.owner = owner;
  if (addresses().open(address, bytes) &&
      begin_direct(address, bytes) == CUDA_SUCCESS) {
    // An allocation before this one may have left something in the page.
    std::memset(reinterpret_cast<void*>(address), 0, static_cast<std::size_t>(bytes));
    if (state().memory.insert(address, bytes, e)) {
      freed().given_out(address, bytes);
      return true;
    }
    end_direct(address);
  }
  addresses().give_back(address, bytes);
  return false;
}

void forget_globals_of(std::uint64_t image) {
  const auto of_image = [image](const memory_range& r) {
    const auto kind = r.value.kind;
    return (kind == memory_kind::global || kind == memory_kind::managed) && r.value.owner == image;
  };
  state().memory.erase_if(of_image, release_range);
}

void forget_memory_of(std::uint32_t context) {
  const auto of_context = [context](const memory_range& r) { return r.value.context == context; };
  state().memory.erase_if(of_context, release_range);
}

namespace custom {

CUresult cuMemAlloc_v2(CUdeviceptr* dptr, std::size_t bytesize) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (dptr == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  allocation_request wanted;
  wanted.bytes = bytesize;
  return allocate(wanted, dptr, nullptr);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, std::size_t* pPitch, std::size_t WidthInBytes,
                            std::size_t Height, unsigned int ElementSizeBytes) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (dptr == nullptr || pPitch == nullptr || WidthInBytes == 0 || Height == 0)
    return CUDA_ERROR_INVALID_VALUE;
  allocation_request wanted;
  wanted.bytes = WidthInBytes;
  wanted.height = Height;
  wanted.element_bytes = ElementSizeBytes;
  wanted.pitched = true;
  return allocate(wanted, dptr, pPitch);
}

CUresult cuMemFree_v2(CUdeviceptr dptr) {
  msg::memory_free::request q;
  q.address = dptr;
  const auto range = state().memory.find(dptr);
  const bool known = range && range->base == dptr &&
                     (range->value.kind == memory_kind::device ||
                      range->value.kind == memory_kind::pool ||
                      (range->value.kind == memory_kind::managed && range->value.owner == 0));
  if (!known) return call<msg::memory_free>(q).result;
  // A poisoned context refuses the free, and then the allocation is still there.
  if (const CUresult r = detail::earlier_error(self()); r != CUDA_SUCCESS) return r;
  // Out of the table first: the server may hand the address out again as soon as the free is on its
  // way.
  if (!forget_device_range(dptr, range->value.kind)) return CUDA_ERROR_INVALID_VALUE;
  return post<msg::memory_free>(q);
}

// ---- host memory ----

namespace {

// An error is for the next call that reports errors of earlier work.
void finish_device_work() {
  msg::sync::request q;
  q.scope = 1;
  const auto a = transact<msg::sync>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS) log_debug("waiting for the context gave {}", static_cast<int>(a.result));
}

// The server gives its memory at this address back when no work uses it any more.
CUresult leave_server(std::uint64_t address) {
  msg::direct_unmap::request q;
  q.address = address;
  thread_state& t = self();
  need_lane(t);
  return detail::append<msg::direct_unmap>(t, q);
}

CUresult allocate_host(void** pp, std::size_t bytes, unsigned flags) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  constexpr unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (pp == nullptr || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {  // the driver grants nothing, and takes null back in cuMemFreeHost
    *pp = nullptr;
    return CUDA_SUCCESS;
  }
  void* memory = pinned_window().allocate(bytes);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  memory_entry e = new_memory_entry(memory_kind::pinned);
  e.flags = flags;
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  if (!state().memory.insert(address, bytes, e)) {
    pinned_window().release(memory, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  host_range_came(address, bytes);
  if ((flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0 || flag_everything()) make_direct(address);
  *pp = memory;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemHostAlloc(void** pp, std::size_t bytesize, unsigned int Flags) {
  return allocate_host(pp, bytesize, Flags);
}
CUresult cuMemAllocHost_v2(void** pp, std::size_t bytesize) {
  return allocate_host(pp, bytesize, 0);
}

CUresult cuMemFreeHost(void* p) {
  if (p == nullptr) return CUDA_SUCCESS;
  const auto address = reinterpret_cast<std::uint64_t>(p);
  const auto range = state().memory.find(address);
  if (!range || range->base != address || range->value.kind != memory_kind::pinned)
    return CUDA_ERROR_INVALID_VALUE;
  const auto taken = state().memory.erase(address);
  if (!taken) return CUDA_ERROR_INVALID_VALUE;
  release_range(*taken);
  return is_shared_memory(*taken) ? leave_server(address) : CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* p, std::size_t bytesize, unsigned int Flags) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  constexpr unsigned known =
      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
  if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0)
    return refuse("cuMemHostRegister with CU_MEMHOSTREGISTER_IOMEMORY");
  if (p == nullptr || bytesize == 0 || (Flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  memory_entry e = new_memory_entry(memory_kind::registered);
  e.flags = Flags;
  const auto address = reinterpret_cast<std::uint64_t>(p);
  if (!state().memory.insert(address, bytesize, e))
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  host_range_came(address, bytesize);
  if ((Flags & CU_MEMHOSTREGISTER_DEVICEMAP) != 0 || flag_everything()) make_direct(address);
  return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void* p, std::size_t bytesize, unsigned int Flags) {
  return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void* p) {
  const auto address = reinterpret_cast<std::uint64_t>(p);
  const auto range = state().memory.find(address);
  if (!range || range->base != address || range->value.kind != memory_kind::registered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  // The memory lives on: what kernels wrote to it must have arrived.
  if (is_shared_memory(*range)) finish_device_work();
  const auto taken = state().memory.erase(address);
  if (!taken) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  release_range(*taken);
  return is_shared_memory(*taken) ? leave_server(address) : CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (pdptr == nullptr || Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto range = state().memory.find(reinterpret_cast<std::uint64_t>(p));
  if (!range || is_device_memory(*range) || range->value.kind == memory_kind::managed)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = make_direct(range->base); r != CUDA_SUCCESS) return r;
  *pdptr = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  const auto range = state().memory.find(reinterpret_cast<std::uint64_t>(p));
  if (pFlags == nullptr || !range || is_device_memory(*range) ||
      range->value.kind == memory_kind::managed)
    return CUDA_ERROR_INVALID_VALUE;
  // With unified addressing all pinned memory is mapped, asked for or not.
  *pFlags = range->value.flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

}  // namespace custom
}  // namespace gpuwire::shim
