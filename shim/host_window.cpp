// SPDX-License-Identifier: Apache-2.0
#include "shim/host_window.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>

#include "shim/entry.hpp"
#include "shim/log.hpp"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace gpuwire::shim {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t huge_page_bytes = 2u << 20;
constexpr std::uint64_t window_bytes_wanted = std::uint64_t{256} << 30;
constexpr std::uint64_t window_bytes_min = std::uint64_t{1} << 30;

constexpr std::uint64_t rounded(std::uint64_t bytes, std::uint64_t to = page_bytes) {
  return (bytes + to - 1) / to * to;
}

// Straight to the kernel: a sanitizer's own mmap refuses fixed addresses that it does not like, and
// what it does like is what the kernel chooses.
std::uint64_t map_memory(std::uint64_t wanted, std::uint64_t bytes, int access, int flags) {
  const auto got =
      ::syscall(SYS_mmap, wanted, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0L);
  return got == -1 ? 0 : static_cast<std::uint64_t>(got);
}
void unmap_memory(std::uint64_t address, std::uint64_t bytes) {
  ::syscall(SYS_munmap, address, bytes);
}
std::uint64_t reserve(std::uint64_t wanted, std::uint64_t bytes) {
  const auto got =
      map_memory(wanted, bytes, PROT_NONE, MAP_NORESERVE | (wanted != 0 ? MAP_FIXED_NOREPLACE : 0));
  if (got == 0 || wanted == 0 || got == wanted) return got;
  unmap_memory(got, bytes);
  return 0;
}

}  // namespace

host_window& pinned_window() {
  static auto* window = new host_window;
  return *window;
}

// A place of the kernel's choice here, then where the server has room, each at smaller sizes too.
void host_window::agree() {
  tried_ = true;
  for (std::uint64_t bytes = window_bytes_wanted; bytes >= window_bytes_min; bytes /= 4) {
    std::uint64_t address = reserve(0, bytes);
    for (int attempt = 0; attempt < 3 && address != 0; ++attempt) {
      msg::direct_reserve::request q;
      q.address = address;
      q.bytes = bytes;
      const auto a = transact<msg::direct_reserve>(q, {}, errors_first::no);
      if (a.result == CUDA_SUCCESS && a.body.taken) {
        base_ = address;
        bytes_ = bytes;
        free_.emplace(address, bytes);
        return;
      }
      unmap_memory(address, bytes);
      if (a.result != CUDA_SUCCESS) return;
      address = a.body.elsewhere != 0 ? reserve(a.body.elsewhere, bytes) : 0;
    }
    if (address != 0) unmap_memory(address, bytes);
  }
  log_debug("client and server have no addresses in common for pinned memory");
}

std::uint64_t host_window::cut(std::uint64_t bytes) {
  const std::uint64_t align = bytes >= huge_page_bytes ? huge_page_bytes : page_bytes;
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    const auto [start, room] = *at;
    const std::uint64_t address = rounded(start, align);
    if (address - start > room || bytes > room - (address - start)) continue;
    free_.erase(at);
    if (address != start) free_.emplace(start, address - start);
    const std::uint64_t rest = start + room - (address + bytes);
    if (rest != 0) free_.emplace(address + bytes, rest);
    return address;
  }
  return 0;
}

void host_window::give_back(std::uint64_t address, std::uint64_t bytes) {
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(address, bytes);
}

void* host_window::allocate(std::uint64_t bytes) {
  if (bytes > UINT64_MAX - page_bytes) return nullptr;
  bytes = rounded(bytes);
  std::lock_guard lock(mutex_);
  if (!tried_) agree();
  std::uint64_t got = 0;
  if (const std::uint64_t place = cut(bytes); place != 0) {
    got = map_memory(place, bytes, PROT_READ | PROT_WRITE, MAP_FIXED);
    if (got == 0) give_back(place, bytes);
  } else {
    got = map_memory(0, bytes, PROT_READ | PROT_WRITE, 0);
  }
  return reinterpret_cast<void*>(got);
}

void host_window::release(void* memory, std::uint64_t bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  bytes = rounded(bytes);
  std::lock_guard lock(mutex_);
  if (!is_inside(address)) return unmap_memory(address, bytes);
  // A write through a stale pointer faults, as it does after the driver's own free.
  map_memory(address, bytes, PROT_NONE, MAP_FIXED | MAP_NORESERVE);
  give_back(address, bytes);
}

}  // namespace gpuwire::shim
