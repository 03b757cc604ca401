// SPDX-License-Identifier: Apache-2.0
// What changed in a piece of memory that two processes both write to, byte for byte: a change of
// one side must not carry the other side's unchanged neighbours along. Both sides compare their
// memory with a shadow, which holds what the other one is known to have. No CUDA, no I/O.
//
// The memory may be written by others meanwhile (by the program's threads, by a GPU). Words of
// eight bytes are read and merged as a whole, so that a value of up to eight bytes never arrives in
// parts.
//
// A delta is a sequence of {u32 block, u64 mask, one byte for each bit of the mask}. Blocks have 64
// bytes and begin at multiples of 64 of the memory's address; block 0 holds the first byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpuwire::wire {

// A copy of what the other side has, as far away from a multiple of 64 as the memory itself. Begins
// as zeros, whose pages cost nothing until they are written to. Empty if there is no memory for it.
class shadow_memory {
 public:
  shadow_memory() = default;
  shadow_memory(std::uint64_t address, std::size_t bytes);
  ~shadow_memory();
  shadow_memory(shadow_memory&& other) noexcept;
  shadow_memory& operator=(shadow_memory&& other) noexcept;
  std::byte* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
};

inline constexpr std::size_t delta_page_bytes = 4096;

// Appends the differences in [from, bytes) to `out` and brings the shadow up to date with them.
// Ends early when `out` has reached out_bytes_max; returns where to go on, `bytes` at the end.
std::size_t encode_delta(const std::byte* memory, std::byte* shadow, std::size_t from,
                         std::size_t bytes, std::size_t out_bytes_max, std::vector<std::byte>& out);

// Writes a delta into the memory and, if there is one, its shadow. False for one that is malformed
// or leaves the memory: then part of it may have been applied.
bool apply_delta(std::span<const std::byte> delta, std::byte* memory, std::byte* shadow,
                 std::size_t bytes);

// The words of eight bytes in which a well-formed delta changes something, as they are now.
void read_changed_words(std::span<const std::byte> delta, const std::byte* memory,
                        std::size_t bytes, std::vector<std::uint64_t>& out);

}  // namespace gpuwire::wire
