// SPDX-License-Identifier: Apache-2.0
// A table indexed by the index part of a handle. Entries never move and are never freed, so that a
// lookup is two loads and no lock. Whether an entry is alive is the entry's own business.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace gpuwire::shim {

template <class Entry>
class flat_table {
 public:
  static constexpr std::uint32_t chunk_entries = 512;
  static constexpr std::uint32_t entries_max = chunk_entries * 4096;

  // Null for an index that nobody asked to make.
  Entry* find(std::uint32_t index) const {
    if (index >= entries_max) return nullptr;
    Entry* chunk = chunks_[index / chunk_entries].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + index % chunk_entries;
  }

  // Null only beyond entries_max.
  Entry* make(std::uint32_t index) {
    if (index >= entries_max) return nullptr;
    if (Entry* known = find(index)) return known;
    std::lock_guard lock(growing_);
    auto& place = chunks_[index / chunk_entries];
    if (place.load(std::memory_order_relaxed) == nullptr)
      place.store(new Entry[chunk_entries](), std::memory_order_release);
    return find(index);
  }

 private:
  std::array<std::atomic<Entry*>, entries_max / chunk_entries> chunks_{};
  std::mutex growing_;
};

}  // namespace gpuwire::shim
