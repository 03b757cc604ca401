// SPDX-License-Identifier: Apache-2.0
#include "graph_memory.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "guard.hpp"

namespace gpuwire::softgpu {
namespace {

// How many there are, for a look without the lock.
std::atomic<unsigned> memory_count{0};

constexpr std::uint64_t chunk_bytes = 32u << 20;

struct entry {
  const graph_memory* which;
  std::weak_ptr<graph_memory> alive;
};

// By address.
std::map<std::uint64_t, entry>& all_memory() {
  static auto* map = new std::map<std::uint64_t, entry>;
  return *map;
}

std::mutex& memory_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

graph_memory_use& use_of(int device_ordinal) {
  static auto* all = new std::map<int, graph_memory_use>;
  return (*all)[device_ordinal];
}

std::uint64_t counted_bytes(const graph_memory& which) {
  return (which.block.bytes + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
}

// The rest is called under the lock.

void set_reserved(graph_memory& which, bool reserved) {
  if (which.reserved == reserved) return;
  which.reserved = reserved;
  auto& use = use_of(which.block.device_ordinal);
  const std::uint64_t bytes = counted_bytes(which);
  use.reserved = reserved ? use.reserved + bytes : use.reserved - bytes;
  use.reserved_high = std::max(use.reserved_high, use.reserved);
}

void set_live(graph_memory& which, bool live) {
  if (which.live == live) return;
  which.live = live;
  auto& use = use_of(which.block.device_ordinal);
  const std::uint64_t bytes = counted_bytes(which);
  use.used = live ? use.used + bytes : use.used - bytes;
  use.used_high = std::max(use.used_high, use.used);
  if (live) set_reserved(which, true);
}

// The last reference must not go under the lock: callers keep what they find beyond it.
std::shared_ptr<graph_memory> find(std::uint64_t address) {
  auto found = all_memory().find(address);
  return found == all_memory().end() ? nullptr : found->second.alive.lock();
}

// A context that ended took the memory with it, and the address may be another's by now.
bool is_there(const graph_memory& which) {
  const auto now = memory_table::instance().find(which.block.base);
  return now && now->buffer_id == which.block.buffer_id;
}

}  // namespace

graph_memory::~graph_memory() {
  std::lock_guard lock(memory_mutex());
  set_live(*this, false);
  set_reserved(*this, false);
  auto known = all_memory().find(block.base);
  if (known != all_memory().end() && known->second.which == this) all_memory().erase(known);
  memory_table::instance().remove_exactly(block);
  if (block.base != 0) memory_count.fetch_sub(1, std::memory_order_release);
}

std::shared_ptr<graph_memory> make_graph_memory(device& on, unsigned context_id,
                                                std::uint64_t bytes) {
  allocation_request request;
  request.bytes = bytes;
  request.context_id = context_id;
  auto block = memory_table::instance().allocate(on, request);
  require(block.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
  auto made = std::make_shared<graph_memory>();
  made->block = *block;
  std::lock_guard lock(memory_mutex());
  memory_count.fetch_add(1, std::memory_order_release);
  all_memory()[block->base] = {made.get(), made};
  return made;
}

std::shared_ptr<graph_memory> graph_memory_at(std::uint64_t address) {
  std::shared_ptr<graph_memory> found;
  std::lock_guard lock(memory_mutex());
  found = find(address);
  return found && is_there(*found) ? found : nullptr;
}

bool is_live(const graph_memory& which) {
  std::lock_guard lock(memory_mutex());
  return which.live;
}

void mark_live(graph_memory& which, bool live) {
  std::lock_guard lock(memory_mutex());
  set_live(which, live);
}

bool free_graph_memory(std::uint64_t address) {
  std::shared_ptr<graph_memory> found;
  std::lock_guard lock(memory_mutex());
  found = find(address);
  if (!found || !is_there(*found)) return false;
  require(found->live);
  set_live(*found, false);
  return true;
}

void check_graph_memory(std::uint64_t address) {
  if (memory_count.load(std::memory_order_acquire) == 0) return;
  std::shared_ptr<graph_memory> found;
  std::lock_guard lock(memory_mutex());
  auto next = all_memory().upper_bound(address);
  if (next == all_memory().begin()) return;
  found = std::prev(next)->second.alive.lock();
  const bool inside = found && found->block.contains(address) && is_there(*found);
  require(!inside || found->live);
}

graph_memory_use graph_memory_use_of(int device_ordinal) {
  std::lock_guard lock(memory_mutex());
  return use_of(device_ordinal);
}

void reset_used_high(int device_ordinal) {
  std::lock_guard lock(memory_mutex());
  use_of(device_ordinal).used_high = use_of(device_ordinal).used;
}

void reset_reserved_high(int device_ordinal) {
  std::lock_guard lock(memory_mutex());
  use_of(device_ordinal).reserved_high = use_of(device_ordinal).reserved;
}

void trim_graph_memory(int device_ordinal) {
  std::vector<std::shared_ptr<graph_memory>> kept;
  std::lock_guard lock(memory_mutex());
  for (const auto& [address, known] : all_memory()) {
    auto one = known.alive.lock();
    if (one && !one->live && one->block.device_ordinal == device_ordinal) set_reserved(*one, false);
    kept.push_back(std::move(one));
  }
}

}  // namespace gpuwire::softgpu
