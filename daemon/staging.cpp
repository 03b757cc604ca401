// SPDX-License-Identifier: Apache-2.0
#include "daemon/staging.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace gpuwire::daemon {

staging_pool::staging_pool(settings s, pin_function pin) : settings_(s), pin_(std::move(pin)) {
  free_.resize(order_for(s.slab_bytes) + 1);
}

staging_pool::~staging_pool() {
  for (const auto& s : slabs_) ::munmap(s.data, settings_.slab_bytes);
}

std::uint32_t staging_pool::order_for(std::size_t bytes) const {
  std::uint32_t order = 0;
  while (bytes_of(order) < bytes) ++order;
  return order;
}

bool staging_pool::grow() {
  if ((slabs_.size() + 1) * settings_.slab_bytes > settings_.bytes_max) return false;
  void* memory = ::mmap(nullptr, settings_.slab_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  slabs_.push_back({static_cast<std::byte*>(memory), 0});
  free_.back().push_back(static_cast<std::byte*>(memory));
  return true;
}

// Splits the smallest block that is large enough; blocks of a slab stay split, because sizes
// repeat.
staging_block staging_pool::take(std::uint32_t order) {
  auto from = order;
  while (from < free_.size() && free_[from].empty()) ++from;
  if (from == free_.size()) {
    if (!grow()) return {};
    from = static_cast<std::uint32_t>(free_.size() - 1);
  }
  auto* data = free_[from].back();
  free_[from].pop_back();
  while (from > order) {
    --from;
    free_[from].push_back(data + bytes_of(from));
  }
  used_ += bytes_of(order);
  return {data, order};
}

staging_pool::slab* staging_pool::slab_of(const std::byte* data) {
  for (auto& s : slabs_) {
    if (data >= s.data && data < s.data + settings_.slab_bytes) return &s;
  }
  return nullptr;
}

void staging_pool::pin_slab_of(const std::byte* data, std::uint32_t context) {
  std::byte* memory = nullptr;
  {
    std::lock_guard lock(mutex_);
    auto* s = slab_of(data);
    if (s == nullptr || s->pinned_by != 0 || context == 0) return;
    s->pinned_by = context;  // claimed: nobody else pins it meanwhile
    memory = s->data;
  }
  pin_(memory, settings_.slab_bytes,
       context);  // refused: it serves unpinned, and nobody asks again at every block
}

staging_block staging_pool::try_acquire(std::size_t bytes, std::uint32_t context) {
  if (bytes > settings_.slab_bytes) return {};
  staging_block block;
  {
    std::lock_guard lock(mutex_);
    block = take(order_for(bytes));
  }
  if (block) pin_slab_of(block.data, context);
  return block;
}

staging_block staging_pool::acquire(std::size_t bytes, std::uint32_t context) {
  if (bytes > settings_.slab_bytes) return {};
  staging_block block;
  {
    std::unique_lock lock(mutex_);
    given_back_.wait(lock, [&] { return static_cast<bool>(block = take(order_for(bytes))); });
  }
  pin_slab_of(block.data, context);
  return block;
}

void staging_pool::release(staging_block block) {
  if (!block) return;
  {
    std::lock_guard lock(mutex_);
    free_[block.order].push_back(block.data);
    used_ -= bytes_of(block.order);
  }
  given_back_.notify_all();
}

void staging_pool::context_gone(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  for (auto& s : slabs_) {
    if (s.pinned_by == context) s.pinned_by = 0;
  }
}

std::size_t staging_pool::bytes_used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

std::size_t staging_pool::bytes_allocated() const {
  std::lock_guard lock(mutex_);
  return slabs_.size() * settings_.slab_bytes;
}

}  // namespace gpuwire::daemon
