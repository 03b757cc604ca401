// SPDX-License-Identifier: Apache-2.0
#include "wire/delivery_board.hpp"

#include <algorithm>
#include <cstring>

namespace gpuwire::wire {

void delivery_board::add(std::uint64_t sequence, std::span<std::byte> memory) {
  std::lock_guard lock(mutex_);
  deliveries_.emplace(sequence, delivery{memory, 0, 0});
  count_.fetch_add(1, std::memory_order_release);
}

void delivery_board::erase(std::unordered_map<std::uint64_t, delivery>::iterator found) {
  if (found->second.announced_as != 0) {
    incomplete_.erase(found->second.announced_as);
    incomplete_count_.store(incomplete_.size(), std::memory_order_release);
    changed_.notify_all();
  }
  deliveries_.erase(found);
  count_.fetch_sub(1, std::memory_order_release);
}

void delivery_board::withdraw(std::uint64_t sequence) {
  std::lock_guard lock(mutex_);
  if (const auto found = deliveries_.find(sequence); found != deliveries_.end()) erase(found);
}

bool delivery_board::deliver(std::uint64_t sequence, std::span<const std::byte> data) {
  std::span<std::byte> memory;
  {
    std::lock_guard lock(mutex_);
    const auto found = deliveries_.find(sequence);
    if (found == deliveries_.end() || found->second.memory.size() != data.size()) return false;
    memory = found->second.memory;
  }
  if (!data.empty()) std::memcpy(memory.data(), data.data(), data.size());
  withdraw(sequence);
  return true;
}

bool delivery_board::announce(std::uint64_t sequence) {
  std::lock_guard lock(mutex_);
  const auto found = deliveries_.find(sequence);
  if (found == deliveries_.end()) return true;  // the data was faster
  if (found->second.announced_as != 0) return false;
  found->second.announced_as = ++announcements_;
  incomplete_.insert(announcements_);
  incomplete_count_.store(incomplete_.size(), std::memory_order_release);
  return true;
}

std::span<std::byte> delivery_board::chunk_place(std::uint64_t sequence, std::uint64_t offset,
                                                 std::uint32_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = deliveries_.find(sequence);
  if (found == deliveries_.end()) return {};
  const auto memory = found->second.memory;
  if (offset > memory.size() || bytes > memory.size() - offset) return {};
  return memory.subspan(static_cast<std::size_t>(offset), bytes);
}

bool delivery_board::chunk_done(std::uint64_t sequence, std::uint32_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = deliveries_.find(sequence);
  if (found == deliveries_.end()) return false;
  found->second.arrived += bytes;
  if (found->second.arrived < found->second.memory.size()) return false;
  erase(found);
  return true;
}

bool delivery_board::wait_announced() {
  if (incomplete_count_.load(std::memory_order_acquire) == 0) return true;
  std::unique_lock lock(mutex_);
  const auto until = announcements_;
  changed_.wait(
      lock, [&] { return incomplete_.empty() || *incomplete_.begin() > until || !state_.ok(); });
  return incomplete_.empty() || *incomplete_.begin() > until;
}

bool delivery_board::expects_into(std::span<const std::byte> memory) const {
  if (count_.load(std::memory_order_acquire) == 0) return false;
  const auto* begin = memory.data();
  const auto* end = begin + memory.size();
  std::lock_guard lock(mutex_);
  return std::any_of(deliveries_.begin(), deliveries_.end(), [&](const auto& entry) {
    const auto& m = entry.second.memory;
    return m.data() < end && begin < m.data() + m.size();
  });
}

void delivery_board::release_all() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace gpuwire::wire
