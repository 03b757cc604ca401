// SPDX-License-Identifier: Apache-2.0
#include "wire/byte_delta.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

// The memory is the program's: its own threads may write while it is looked at, by design.
#define GPUWIRE_RACES_BY_DESIGN __attribute__((no_sanitize("thread")))

namespace gpuwire::wire {
namespace {

constexpr std::size_t block_bytes = 64;
constexpr std::size_t word_bytes = 8;
constexpr std::size_t record_bytes_max = 4 + 8 + block_bytes;

std::size_t skew_of(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % block_bytes;
}

constexpr std::array<std::uint64_t, 256> make_expanded() {
  std::array<std::uint64_t, 256> all{};
  for (unsigned bits = 0; bits < 256; ++bits)
    for (unsigned bit = 0; bit < 8; ++bit)
      if ((bits >> bit & 1) != 0) all[bits] |= std::uint64_t{0xff} << (8 * bit);
  return all;
}
constexpr auto expanded = make_expanded();  // a mask of bits -> a mask of bytes

// One bit for each byte of the word that is not zero.
std::uint64_t nonzero_bytes(std::uint64_t word) {
  constexpr std::uint64_t low_bits = 0x7f7f7f7f7f7f7f7full;
  const std::uint64_t high_bits = (((word & low_bits) + low_bits) | word) & ~low_bits;
  return ((high_bits >> 7) * 0x0102040810204080ull) >> 56;
}

GPUWIRE_RACES_BY_DESIGN std::uint64_t read_word(const std::byte* at) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(at), __ATOMIC_RELAXED);
}

GPUWIRE_RACES_BY_DESIGN bool equal(const std::byte* memory, const std::byte* shadow,
                                   std::size_t bytes) {
#if defined(__SANITIZE_THREAD__)
  for (std::size_t i = 0; i < bytes; ++i)
    if (memory[i] != shadow[i]) return false;
  return true;
#else
  return std::memcmp(memory, shadow, bytes) == 0;
#endif
}

struct changed_block {
  std::uint64_t mask = 0;
  std::array<std::byte, block_bytes> bytes{};
  std::size_t count = 0;

  void add(std::uint64_t word_bits, std::uint64_t value, std::size_t first_bit) {
    mask |= word_bits << first_bit;
    if (word_bits == 0xff) {
      std::memcpy(bytes.data() + count, &value, sizeof value);
      count += sizeof value;
      return;
    }
    for (; word_bits != 0; word_bits &= word_bits - 1)
      bytes[count++] = static_cast<std::byte>(value >> (8 * std::countr_zero(word_bits)) & 0xff);
  }
};

// Compares the bytes [begin, end) of the memory, all in the block that begins at block_begin (which
// may lie before the memory).
GPUWIRE_RACES_BY_DESIGN changed_block compare(const std::byte* memory, std::byte* shadow,
                                              std::ptrdiff_t block_begin, std::size_t begin,
                                              std::size_t end) {
  changed_block out;
  for (std::size_t at = begin; at < end;) {
    const auto bit = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(at) - block_begin);
    if (bit % word_bytes == 0 && end - at >= word_bytes) {
      const auto now = read_word(memory + at);
      std::uint64_t before = 0;
      std::memcpy(&before, shadow + at, sizeof before);
      if (now != before) {
        out.add(nonzero_bytes(now ^ before), now, bit);
        std::memcpy(shadow + at, &now, sizeof now);
      }
      at += word_bytes;
      continue;
    }
    const std::byte now = memory[at];
    if (now != shadow[at]) {
      out.add(1, std::to_integer<std::uint64_t>(now), bit);
      shadow[at] = now;
    }
    ++at;
  }
  return out;
}

void append(std::vector<std::byte>& out, std::uint32_t block, const changed_block& changed) {
  const auto at = out.size();
  out.resize(at + sizeof block + sizeof changed.mask + changed.count);
  std::memcpy(out.data() + at, &block, sizeof block);
  std::memcpy(out.data() + at + sizeof block, &changed.mask, sizeof changed.mask);
  std::memcpy(out.data() + at + sizeof block + sizeof changed.mask, changed.bytes.data(),
              changed.count);
}

// The bytes that `which` selects change to those of `value`, all at once.
GPUWIRE_RACES_BY_DESIGN void merge_word(std::byte* at, std::uint64_t value, std::uint64_t which) {
  auto* word = reinterpret_cast<std::uint64_t*>(at);
  if (which == ~std::uint64_t{0}) return __atomic_store_n(word, value, __ATOMIC_RELEASE);
  auto before = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &before, (before & ~which) | value, true,
                                      __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

// One word's share of a block. `at` is the word's place in the memory; it may stick out at either
// end.
GPUWIRE_RACES_BY_DESIGN bool apply_word(std::ptrdiff_t at, std::uint64_t bits,
                                        const std::byte*& data, std::byte* memory,
                                        std::byte* shadow, std::size_t bytes) {
  const auto end = static_cast<std::ptrdiff_t>(bytes);
  const auto word = static_cast<std::ptrdiff_t>(word_bytes);
  if (at >= 0 && end >= word && at <= end - word) {
    std::uint64_t value = 0;
    if (bits == 0xff) {
      std::memcpy(&value, data, sizeof value);
      data += sizeof value;
    } else {
      for (std::uint64_t rest = bits; rest != 0; rest &= rest - 1)
        value |= std::to_integer<std::uint64_t>(*data++) << (8 * std::countr_zero(rest));
    }
    merge_word(memory + at, value, expanded[bits]);
    if (shadow != nullptr) merge_word(shadow + at, value, expanded[bits]);
    return true;
  }
  for (unsigned byte = 0; byte < word_bytes; ++byte) {
    if ((bits >> byte & 1) == 0) continue;
    const auto place = at + static_cast<std::ptrdiff_t>(byte);
    if (place < 0 || place >= end) return false;
    memory[place] = *data;
    if (shadow != nullptr) shadow[place] = *data;
    ++data;
  }
  return true;
}

}  // namespace

shadow_memory::shadow_memory(std::uint64_t address, std::size_t bytes) {
  const auto skew = static_cast<std::size_t>(address % block_bytes);
  mapped_bytes_ = bytes + skew;
  void* got = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return;
  mapping_ = got;
  data_ = static_cast<std::byte*>(got) + skew;
}

shadow_memory::~shadow_memory() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
}

shadow_memory::shadow_memory(shadow_memory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_bytes_(other.mapped_bytes_),
      data_(std::exchange(other.data_, nullptr)) {}

shadow_memory& shadow_memory::operator=(shadow_memory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(data_, other.data_);
  return *this;
}

std::size_t encode_delta(const std::byte* memory, std::byte* shadow, std::size_t from,
                         std::size_t bytes, std::size_t out_bytes_max,
                         std::vector<std::byte>& out) {
  const std::size_t skew = skew_of(memory);
  for (std::size_t at = from; at < bytes;) {
    const std::size_t page_end =
        std::min(bytes, at + (delta_page_bytes - (at + skew) % delta_page_bytes));
    if (equal(memory + at, shadow + at, page_end - at)) {
      at = page_end;
      continue;
    }
    while (at < page_end) {
      if (out.size() + record_bytes_max > out_bytes_max) return at;
      const std::size_t block = (at + skew) / block_bytes;
      const auto block_begin =
          static_cast<std::ptrdiff_t>(block * block_bytes) - static_cast<std::ptrdiff_t>(skew);
      const std::size_t end = std::min(page_end, (block + 1) * block_bytes - skew);
      const auto changed = compare(memory, shadow, block_begin, at, end);
      if (changed.mask != 0) append(out, static_cast<std::uint32_t>(block), changed);
      at = end;
    }
  }
  return bytes;
}

bool apply_delta(std::span<const std::byte> delta, std::byte* memory, std::byte* shadow,
                 std::size_t bytes) {
  const auto skew = static_cast<std::ptrdiff_t>(skew_of(memory));
  const std::byte* data = delta.data();
  const std::byte* end = data + delta.size();
  while (data != end) {
    std::uint32_t block = 0;
    std::uint64_t mask = 0;
    if (static_cast<std::size_t>(end - data) < sizeof block + sizeof mask) return false;
    std::memcpy(&block, data, sizeof block);
    std::memcpy(&mask, data + sizeof block, sizeof mask);
    data += sizeof block + sizeof mask;
    if (mask == 0 || end - data < std::popcount(mask)) return false;
    const auto begin = static_cast<std::ptrdiff_t>(std::size_t{block} * block_bytes) - skew;
    for (unsigned word = 0; word < block_bytes / word_bytes; ++word) {
      const std::uint64_t bits = mask >> (8 * word) & 0xff;
      if (bits != 0 && !apply_word(begin + static_cast<std::ptrdiff_t>(word * word_bytes), bits,
                                   data, memory, shadow, bytes))
        return false;
    }
  }
  return true;
}

void read_changed_words(std::span<const std::byte> delta, const std::byte* memory,
                        std::size_t bytes, std::vector<std::uint64_t>& out) {
  const auto skew = static_cast<std::ptrdiff_t>(skew_of(memory));
  const auto end = static_cast<std::ptrdiff_t>(bytes);
  for (std::size_t at = 0; at + 12 <= delta.size();) {
    std::uint32_t block = 0;
    std::uint64_t mask = 0;
    std::memcpy(&block, delta.data() + at, sizeof block);
    std::memcpy(&mask, delta.data() + at + sizeof block, sizeof mask);
    at += sizeof block + sizeof mask + static_cast<std::size_t>(std::popcount(mask));
    for (unsigned word = 0; word < block_bytes / word_bytes; ++word) {
      const auto place = static_cast<std::ptrdiff_t>(std::size_t{block} * block_bytes) - skew +
                         static_cast<std::ptrdiff_t>(word * word_bytes);
      if ((mask >> (8 * word) & 0xff) == 0 || place < 0 ||
          place + static_cast<std::ptrdiff_t>(word_bytes) > end)
        continue;
      out.push_back(read_word(memory + place));
    }
  }
}

}  // namespace gpuwire::wire
