// SPDX-License-Identifier: Apache-2.0
#include "arena.hpp"

#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <limits>

namespace gpuwire::softgpu {
namespace {

constexpr std::uint64_t huge_page = 2ull << 20;
constexpr std::uint64_t grow_bytes_min = 8ull << 20;
constexpr std::uint64_t give_back_bytes_min = 1ull << 20;

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

// A place below where libraries are usually mapped, different in every process: a client reserves
// the same addresses on its side, perhaps for several servers at once. Address and thread sanitizer
// both leave this range to programs.
std::uint64_t wanted_place() {
  std::uint32_t random = 0;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) random = 0;
  return 0x7e80'0000'0000ull + std::uint64_t{random % 28} * (16ull << 30);
}

}  // namespace

std::optional<std::uint64_t> reserve_addresses(std::uint64_t bytes, std::uint64_t align,
                                               std::uint64_t hint) {
  if (bytes > UINT64_MAX - align) return std::nullopt;
  auto* wanted = reinterpret_cast<void*>(hint != 0 ? hint : wanted_place());
  void* got =
      mmap(wanted, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return std::nullopt;
  const auto start = reinterpret_cast<std::uint64_t>(got);
  const std::uint64_t base = round_up(start, align), end = base + bytes;
  if (base > start) munmap(got, base - start);
  if (start + align > base) munmap(reinterpret_cast<void*>(end), start + align - base);
  return base;
}

arena::arena(std::uint64_t bytes, const std::string& shared_name) {
  if (!shared_name.empty()) file_ = memfd_create(shared_name.c_str(), MFD_CLOEXEC);
  for (reserved_ = round_up(bytes, huge_page); reserved_ >= 4 * huge_page;
       reserved_ = round_up(reserved_ / 2, huge_page)) {
    // The file has no memory either until it is touched.
    if (file_ >= 0 && ftruncate(file_, static_cast<off_t>(reserved_ + huge_page)) != 0) continue;
    const int kind = file_ >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void* got = mmap(reinterpret_cast<void*>(wanted_place()), reserved_ + huge_page, PROT_NONE,
                     kind | MAP_NORESERVE, file_, 0);
    if (got != MAP_FAILED) {
      mapped_ = reinterpret_cast<std::uint64_t>(got);
      base_ = round_up(reinterpret_cast<std::uint64_t>(got), huge_page);
      return;
    }
  }
  reserved_ = 0;
}

void arena::add_free(std::uint64_t address, std::uint64_t bytes) {
  auto next = free_.lower_bound(address);
  if (next != free_.end() && address + bytes == next->first) {
    bytes += next->second;
    drop_free(next);
  }
  auto previous = free_.lower_bound(address);
  if (previous != free_.begin() && (--previous, previous->first + previous->second == address)) {
    address = previous->first;
    bytes += previous->second;
    drop_free(previous);
  }
  free_.emplace(address, bytes);
  by_size_.emplace(bytes, address);
}

void arena::drop_free(std::map<std::uint64_t, std::uint64_t>::iterator entry) {
  by_size_.erase({entry->second, entry->first});
  free_.erase(entry);
}

bool arena::grow(std::uint64_t bytes, std::uint64_t align) {
  const std::uint64_t step = std::max(round_up(bytes + align, huge_page), grow_bytes_min);
  const std::uint64_t take = std::min(step, reserved_ - committed_);
  if (take < bytes) return false;
  void* start = reinterpret_cast<void*>(base_ + committed_);
  if (mprotect(start, take, PROT_READ | PROT_WRITE) != 0) return false;
  madvise(
      start, take,
      MADV_HUGEPAGE);  // a hint; the first touch of a large copy is several times faster with it
  add_free(base_ + committed_, take);
  committed_ += take;
  return true;
}

std::optional<std::uint64_t> arena::allocate(std::uint64_t bytes, std::uint64_t align) {
  if (bytes > reserved_) return std::nullopt;
  bytes = rounded(bytes);
  align = std::max(align, granule);
  for (;;) {
    for (auto fit = by_size_.lower_bound({bytes, 0}); fit != by_size_.end(); ++fit) {
      const auto [free_bytes, start] = *fit;
      const std::uint64_t address = round_up(start, align);
      if (address - start > free_bytes - bytes) continue;
      drop_free(free_.find(start));
      if (address > start) add_free(start, address - start);
      const std::uint64_t rest = start + free_bytes - (address + bytes);
      if (rest > 0) add_free(address + bytes, rest);
      return address;
    }
    if (!grow(bytes, align)) return std::nullopt;
  }
}

void arena::release(std::uint64_t address, std::uint64_t bytes) {
  bytes = rounded(bytes);
  assert(contains(address));
  if (bytes >= give_back_bytes_min) {
    const std::uint64_t first = round_up(address, 4096);
    const std::uint64_t last = (address + bytes) / 4096 * 4096;
    // Of a file it is the content that goes back, not this mapping of it.
    if (last > first)
      madvise(reinterpret_cast<void*>(first), last - first,
              file_ >= 0 ? MADV_REMOVE : MADV_DONTNEED);
  }
  add_free(address, bytes);
}

}  // namespace gpuwire::softgpu
