// SPDX-License-Identifier: Apache-2.0
#include "shim/reservations.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>
#include <vector>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace gpuwire::shim {
namespace {

// Straight to the kernel: a sanitizer's own mmap refuses addresses that its program could not use,
// and nothing in these ranges is ever touched.
void* reserve(void* wanted, std::size_t bytes) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  return reinterpret_cast<void*>(::syscall(SYS_mmap, wanted, bytes, PROT_NONE, flags, -1, 0L));
}
void release(void* begin, std::size_t bytes) {
  ::syscall(SYS_munmap, begin, bytes);
}

}  // namespace

bool reservations::map_run(std::uint64_t first, std::uint64_t end) {
  void* wanted = reinterpret_cast<void*>(first * granule_bytes);
  const auto bytes = static_cast<std::size_t>((end - first) * granule_bytes);
  void* got = reserve(wanted, bytes);
  if (got == MAP_FAILED) return false;
  if (got == wanted) return true;
  release(got, bytes);  // a kernel before 4.17 takes the address as a hint only
  return false;
}

void reservations::unmap_run(std::uint64_t first, std::uint64_t end) {
  release(reinterpret_cast<void*>(first * granule_bytes),
          static_cast<std::size_t>((end - first) * granule_bytes));
}

bool reservations::take(std::uint64_t base, std::uint64_t bytes) {
  if (bytes == 0 || base + bytes < base) return false;
  const std::uint64_t first = base / granule_bytes, last = (base + bytes - 1) / granule_bytes;
  std::lock_guard lock(mutex_);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> mapped;
  for (std::uint64_t g = first; g <= last;) {
    if (holders_.count(g) != 0) {
      ++g;
      continue;
    }
    std::uint64_t end = g;
    while (end <= last && holders_.count(end) == 0) ++end;
    if (!map_run(g, end)) {
      for (const auto& [from, to] : mapped) unmap_run(from, to);
      return false;
    }
    mapped.emplace_back(g, end);
    g = end;
  }
  for (std::uint64_t g = first; g <= last; ++g) ++holders_[g];
  return true;
}

bool reservations::open(std::uint64_t base, std::uint64_t bytes) {
  constexpr std::uint64_t page_bytes = 4096;
  const std::uint64_t first = base / page_bytes * page_bytes;
  const std::uint64_t end = (base + bytes + page_bytes - 1) / page_bytes * page_bytes;
  return ::syscall(SYS_mprotect, first, end - first, PROT_READ | PROT_WRITE) == 0;
}

void reservations::give_back(std::uint64_t base, std::uint64_t bytes) {
  const std::uint64_t first = base / granule_bytes, last = (base + bytes - 1) / granule_bytes;
  std::lock_guard lock(mutex_);
  std::uint64_t run = 0;
  bool in_run = false;
  for (std::uint64_t g = first; g <= last; ++g) {
    const auto found = holders_.find(g);
    const bool free = found != holders_.end() && --found->second == 0;
    if (free) holders_.erase(found);
    if (free && !in_run) run = g;
    if (!free && in_run) unmap_run(run, g);
    in_run = free;
  }
  if (in_run) unmap_run(run, last + 1);
}

}  // namespace gpuwire::shim
