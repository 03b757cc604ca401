// SPDX-License-Identifier: Apache-2.0
// Memory that is mapped twice, end to end, so that a record which wraps around is still contiguous. Positions grow for
// ever; the place of a position is its remainder. No locking: who writes and who reads where is the owner's business.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwire::wire {

class magic_ring {
 public:
  magic_ring() = default;
  magic_ring(const magic_ring&) = delete;
  magic_ring& operator=(const magic_ring&) = delete;
  ~magic_ring();

  // The size is a power of two and a multiple of the page. 0, or the errno value of what failed.
  int map(std::size_t bytes);
  std::size_t capacity() const { return bytes_; }
  // Up to capacity() bytes are contiguous from here.
  std::byte* at(std::uint64_t position) const { return base_ + (position & (bytes_ - 1)); }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace gpuwire::wire
