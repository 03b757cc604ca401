// SPDX-License-Identifier: Apache-2.0
// Address ranges and what lies in them: device allocations, pinned and registered host memory,
// module globals. Ranges never overlap. Many readers, few writers; a reader gets a copy, so nothing
// it holds can go away. No CUDA, no I/O.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

namespace gpuwire::shim {

template <class Value>
class interval_map {
 public:
  struct entry {
    std::uint64_t base = 0, bytes = 0;
    Value value{};
    bool contains(std::uint64_t address, std::uint64_t length) const {
      return address >= base && address - base <= bytes && length <= bytes - (address - base);
    }
  };

  // False, and nothing changed, if the range is empty, wraps around or overlaps another one.
  bool insert(std::uint64_t base, std::uint64_t bytes, Value value) {
    if (bytes == 0 || base + bytes < base) return false;
    std::unique_lock lock(mutex_);
    const auto next = ranges_.lower_bound(base);
    if (next != ranges_.end() && next->first - base < bytes) return false;
    if (next != ranges_.begin()) {
      const auto& previous = std::prev(next)->second;
      if (base - previous.base < previous.bytes) return false;
    }
    ranges_.emplace_hint(next, base, entry{base, bytes, std::move(value)});
    return true;
  }

  // The range that `address` lies in.
  std::optional<entry> find(std::uint64_t address) const {
    std::shared_lock lock(mutex_);
    const auto next = ranges_.upper_bound(address);
    if (next == ranges_.begin()) return std::nullopt;
    const auto& candidate = std::prev(next)->second;
    if (address - candidate.base >= candidate.bytes) return std::nullopt;
    return candidate;
  }

  // Whether [address, address + bytes) lies wholly in one range. Cheaper than find().
  bool covers(std::uint64_t address, std::uint64_t bytes) const {
    std::shared_lock lock(mutex_);
    const auto next = ranges_.upper_bound(address);
    if (next == ranges_.begin()) return false;
    return std::prev(next)->second.contains(address, bytes);
  }

  // Changes the value of the range that begins there, if there is one.
  template <class Change>
  void change(std::uint64_t base, Change change) {
    std::unique_lock lock(mutex_);
    if (const auto found = ranges_.find(base); found != ranges_.end()) change(found->second.value);
  }

  // Only the exact start of a range takes it out.
  std::optional<entry> erase(std::uint64_t base) {
    std::unique_lock lock(mutex_);
    const auto found = ranges_.find(base);
    if (found == ranges_.end()) return std::nullopt;
    auto taken = std::move(found->second);
    ranges_.erase(found);
    return taken;
  }

  // Changes the values of the ranges that lie wholly in [base, base + bytes).
  template <class Change>
  void change_within(std::uint64_t base, std::uint64_t bytes, Change change) {
    std::unique_lock lock(mutex_);
    for (auto it = ranges_.lower_bound(base); it != ranges_.end(); ++it) {
      const auto& range = it->second;
      if (range.base - base >= bytes || range.bytes > bytes - (range.base - base)) break;
      change(it->second.value);
    }
  }

  // Takes out every range that `wanted` chooses and gives each to `taken` after the lock is
  // released.
  template <class Wanted, class Taken>
  void erase_if(Wanted wanted, Taken taken) {
    std::map<std::uint64_t, entry> gone;
    {
      std::unique_lock lock(mutex_);
      for (auto it = ranges_.begin(); it != ranges_.end();) {
        auto here = it++;
        if (wanted(here->second)) gone.insert(ranges_.extract(here));
      }
    }
    for (auto& [base, range] : gone) taken(range);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, entry> ranges_;
};

}  // namespace gpuwire::shim
