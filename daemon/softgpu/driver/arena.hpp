// SPDX-License-Identifier: Apache-2.0
// A window of address space from which allocations are cut. The window is reserved without access
// and made readable and writable as it fills up; it is never unmapped, so that a kernel with a
// stale pointer meets the table of allocations (and error 700) and not a fault of the whole
// process. Not thread-safe: its owner holds a lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace gpuwire::softgpu {

// Address space without access, its start a multiple of `align` (a power of two), near `hint` where
// that is free, else where the arenas lie. Nothing when the process may not have so much.
std::optional<std::uint64_t> reserve_addresses(std::uint64_t bytes, std::uint64_t align,
                                               std::uint64_t hint = 0);

class arena {
 public:
  // Reserves about `bytes`, less when the process may not have that much address space. With a
  // name, the memory is an anonymous file of that name that another process can map.
  explicit arena(std::uint64_t bytes, const std::string& shared_name = {});
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  // `bytes` are rounded up to `granule`; `align` is a power of two.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes, std::uint64_t align);
  void release(std::uint64_t address, std::uint64_t bytes);
  bool contains(std::uint64_t address) const {
    return address >= base_ && address - base_ < reserved_;
  }

  // Where an address lies in the file; there is none (-1) for an arena without a name.
  int file() const { return file_; }
  std::uint64_t offset_of(std::uint64_t address) const { return address - mapped_; }

  static constexpr std::uint64_t granule = 512;
  static std::uint64_t rounded(std::uint64_t bytes) {
    return (bytes + granule - 1) / granule * granule;
  }

 private:
  void add_free(std::uint64_t address, std::uint64_t bytes);
  void drop_free(std::map<std::uint64_t, std::uint64_t>::iterator entry);
  bool grow(std::uint64_t bytes, std::uint64_t align);

  int file_ = -1;
  std::uint64_t mapped_ = 0;  // the address of the file's first byte
  std::uint64_t base_ = 0;
  std::uint64_t reserved_ = 0;
  std::uint64_t committed_ = 0;                  // bytes from base_ that are accessible
  std::map<std::uint64_t, std::uint64_t> free_;  // address -> bytes, never adjacent
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (bytes, address)
};

}  // namespace gpuwire::softgpu
