// SPDX-License-Identifier: Apache-2.0
#include "daemon/direct_memory.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "daemon/call_context.hpp"
#include "daemon/daemon_thread.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/limits.hpp"
#include "wire/limits.hpp"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace gpuwire::daemon {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t address_min = 1u << 16;
constexpr std::uint64_t address_end = std::uint64_t{1} << 47;
constexpr int private_memory = MAP_PRIVATE | MAP_ANONYMOUS;

std::uint64_t page_of(std::uint64_t address) {
  return address / page_bytes * page_bytes;
}

bool is_sane(std::uint64_t address, std::uint64_t bytes) {
  return address >= address_min && bytes != 0 && bytes <= address_end &&
         address <= address_end - bytes;
}

// Straight to the kernel: a sanitizer's own mmap refuses addresses that its program could not use.
std::uint64_t map_memory(std::uint64_t wanted, std::uint64_t bytes, int access, int flags) {
  const auto got = ::syscall(SYS_mmap, wanted, bytes, access, private_memory | flags, -1, 0L);
  return got == -1 ? 0 : static_cast<std::uint64_t>(got);
}
void unmap_memory(std::uint64_t address, std::uint64_t bytes) {
  ::syscall(SYS_munmap, address, bytes);
}

// A kernel before 4.17 takes the address as a hint only.
bool map_exactly(std::uint64_t wanted, std::uint64_t bytes, int access, int flags) {
  const auto got = map_memory(wanted, bytes, access, flags | MAP_FIXED_NOREPLACE);
  if (got == wanted) return true;
  if (got != 0) unmap_memory(got, bytes);
  return false;
}

}  // namespace

bool direct_memory::reserve(std::uint64_t address, std::uint64_t bytes, std::uint64_t& elsewhere) {
  elsewhere = 0;
  std::lock_guard lock(mutex_);
  if (window_ != 0 || bytes == 0 || bytes % page_bytes != 0 || address % page_bytes != 0 ||
      bytes > limits::direct_window_bytes_max)
    return false;
  if (is_sane(address, bytes) && map_exactly(address, bytes, PROT_NONE, MAP_NORESERVE)) {
    window_ = address;
    window_bytes_ = bytes;
    return true;
  }
  elsewhere = map_memory(0, bytes, PROT_NONE, MAP_NORESERVE);
  if (elsewhere != 0) unmap_memory(elsewhere, bytes);
  return false;
}

bool direct_memory::take_pages(std::uint64_t first, std::uint64_t end) {
  const bool inside = first - window_ < window_bytes_ && end - window_ <= window_bytes_;
  if (!inside) return map_exactly(first, end - first, PROT_READ | PROT_WRITE, 0);
  return map_memory(first, end - first, PROT_READ | PROT_WRITE, MAP_FIXED) == first;
}

void direct_memory::give_back_pages(std::uint64_t first, std::uint64_t end) {
  const bool inside = first - window_ < window_bytes_;
  if (inside)
    map_memory(first, end - first, PROT_NONE, MAP_FIXED | MAP_NORESERVE);
  else
    unmap_memory(first, end - first);
}

bool direct_memory::overlaps(std::uint64_t first, std::uint64_t end) const {
  for (const auto* map : {&ranges_, &with_driver_}) {
    const auto next = map->lower_bound(end);
    if (next == map->begin()) continue;
    const auto& [address, r] = *std::prev(next);
    if (page_of(address + r.bytes - 1) >= first) return true;
  }
  return false;
}

CUresult direct_memory::insert(std::uint64_t address, range r) {
  r.shadow = wire::shadow_memory(address, r.bytes);
  if (!r.shadow) return CUDA_ERROR_OUT_OF_MEMORY;
  ranges_.emplace(address, std::move(r));
  count_.store(ranges_.size(), std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult direct_memory::map(std::uint32_t context, std::uint64_t address, std::uint64_t bytes,
                            unsigned flags) {
  const auto& d = worker_.driver();
  if (d.cuMemHostRegister_v2 == nullptr || d.cuMemHostGetDevicePointer_v2 == nullptr ||
      d.cuMemHostUnregister == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!is_sane(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto first = page_of(address), end = page_of(address + bytes - 1) + page_bytes;
  {
    std::lock_guard lock(mutex_);
    if (overlaps(first, end) || !take_pages(first, end)) return CUDA_ERROR_NOT_SUPPORTED;
    range placeholder;
    placeholder.bytes = bytes;
    with_driver_.emplace(address, std::move(placeholder));
  }
  auto result = register_pages(address, bytes, flags);
  std::lock_guard lock(mutex_);
  with_driver_.erase(address);
  if (result == CUDA_SUCCESS) {
    range r;
    r.bytes = bytes;
    r.context = context;
    result = insert(address, std::move(r));
    if (result == CUDA_SUCCESS) return CUDA_SUCCESS;
    d.cuMemHostUnregister(reinterpret_cast<void*>(address));
  }
  give_back_pages(first, end);
  return result;
}

CUresult direct_memory::register_pages(std::uint64_t address, std::uint64_t bytes, unsigned flags) {
  const auto& d = worker_.driver();
  auto* memory = reinterpret_cast<void*>(address);
  const unsigned wanted = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                          (flags & CU_MEMHOSTREGISTER_READ_ONLY);
  auto result = d.cuMemHostRegister_v2(memory, bytes, wanted);
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr device = 0;
  result = d.cuMemHostGetDevicePointer_v2(&device, memory, 0);
  if (result == CUDA_SUCCESS && device == address) return CUDA_SUCCESS;
  d.cuMemHostUnregister(memory);
  return result == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : result;
}

CUresult direct_memory::adopt(std::uint32_t context, std::uint64_t address, std::uint64_t bytes,
                              std::uint64_t image) {
  if (!is_sane(address, bytes)) return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard lock(mutex_);
  if (ranges_.count(address) != 0) return CUDA_SUCCESS;  // a variable that was asked for before
  range r;
  r.bytes = bytes;
  r.context = context;
  r.managed = true;
  r.image = image;
  if (image == 0) std::memset(reinterpret_cast<void*>(address), 0, bytes);
  return insert(address, std::move(r));
}

bool direct_memory::write(std::uint64_t address, std::span<const std::byte> delta) {
  std::lock_guard lock(mutex_);
  const auto found = ranges_.find(address);
  // A range of a context that is gone: its last writes were on their way.
  if (found == ranges_.end()) return true;
  return wire::apply_delta(delta, reinterpret_cast<std::byte*>(address),
                           found->second.shadow.data(), found->second.bytes);
}

void direct_memory::publish() {
  if (empty()) return;
  std::lock_guard lock(mutex_);
  for (auto& [address, r] : ranges_) send_changes(address, r);
}

void direct_memory::work_issued() {
  if (!empty() && pace_.work_began()) start_thread(worker_, "gpuwire-direct", [this] { poll(); });
}

void direct_memory::poll() {
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      for (auto& [address, r] : ranges_)
        if (r.bytes <= wire::polled_bytes_max) send_changes(address, r);
    }
    std::this_thread::sleep_for(pace_.pause());
  }
}

void direct_memory::send_changes(std::uint64_t address, range& r) {
  std::vector<std::byte> delta;
  for (std::size_t at = 0; at < r.bytes;) {
    delta.clear();
    at = wire::encode_delta(reinterpret_cast<const std::byte*>(address), r.shadow.data(), at,
                            r.bytes, limits::direct_delta_bytes_max, delta);
    if (delta.empty()) continue;
    msg::direct_changes::request m;
    m.address = address;
    m.delta = {delta.data(), static_cast<std::uint32_t>(delta.size())};
    (void)worker_.session->push(m, msg::direct_changes::call_id);
  }
}

void direct_memory::unmap(const call_ticket& ticket, std::uint64_t address) {
  {
    std::lock_guard lock(mutex_);
    const auto found = ranges_.find(address);
    if (found == ranges_.end() || found->second.managed) return;
    with_driver_.insert(ranges_.extract(found));
    count_.store(ranges_.size(), std::memory_order_relaxed);
  }
  worker_.frees.post(ticket, [this, address] {
    const auto result = worker_.driver().cuMemHostUnregister(reinterpret_cast<void*>(address));
    std::lock_guard lock(mutex_);
    const auto found = with_driver_.find(address);
    if (found == with_driver_.end()) return static_cast<int>(result);
    give_back_pages(page_of(address), page_of(address + found->second.bytes - 1) + page_bytes);
    with_driver_.erase(found);
    return static_cast<int>(result);
  });
}

template <class Which>
void direct_memory::forget_managed(Which which) {
  if (empty()) return;
  std::lock_guard lock(mutex_);
  std::erase_if(ranges_, [&](const auto& entry) {
    return entry.second.managed && which(entry.first, entry.second);
  });
  count_.store(ranges_.size(), std::memory_order_relaxed);
}

void direct_memory::forget(std::uint64_t address) {
  forget_managed([address](std::uint64_t at, const range&) { return at == address; });
}

void direct_memory::context_leaves(std::uint32_t context) {
  forget_managed([context](std::uint64_t, const range& r) { return r.context == context; });
}

void direct_memory::image_leaves(std::uint64_t image) {
  forget_managed([image](std::uint64_t, const range& r) { return r.image == image; });
}

// The driver has ended the registrations with the context; nothing runs there any more.
void direct_memory::context_gone(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  for (auto at = ranges_.begin(); at != ranges_.end();) {
    const auto& [address, r] = *at;
    if (r.context != context) {
      ++at;
      continue;
    }
    if (!r.managed) give_back_pages(page_of(address), page_of(address + r.bytes - 1) + page_bytes);
    at = ranges_.erase(at);
  }
  count_.store(ranges_.size(), std::memory_order_relaxed);
}

namespace custom {

outcome direct_reserve(call_context& c, const msg::direct_reserve::request& q) {
  msg::direct_reserve::reply r;
  r.taken = c.owner().direct.reserve(q.address, q.bytes, r.elsewhere);
  return c.finish<msg::direct_reserve>(CUDA_SUCCESS, r);
}

outcome direct_map(call_context& c, const msg::direct_map::request& q) {
  const auto result = c.owner().direct.map(c.ticket().context, q.address, q.bytes, q.flags);
  return c.finish<msg::direct_map>(result, {});
}

outcome direct_unmap(call_context& c, const msg::direct_unmap::request& q) {
  c.owner().direct.unmap(c.ticket(), q.address);
  return c.finish<msg::direct_unmap>(CUDA_SUCCESS, {});
}

outcome direct_write(call_context& c, const msg::direct_write::request& q) {
  if (!c.owner().direct.write(q.address, {q.delta.data, static_cast<std::size_t>(q.delta.size)}))
    return c.malformed();
  return c.finish<msg::direct_write>(CUDA_SUCCESS, {});
}

}  // namespace custom
}  // namespace gpuwire::daemon
