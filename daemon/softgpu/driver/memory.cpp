// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <sys/sysinfo.h>

#include <algorithm>

#include "device.hpp"
#include "shared_file.hpp"

namespace gpuwire::softgpu {
namespace {

constexpr int host_arena = -1;
// Between neighbours, so that an access just beyond an allocation is always found.
constexpr std::uint64_t guard_bytes = arena::granule;
constexpr std::size_t chunk_entries_max = 128;
constexpr std::uint64_t backing_align = 2ull << 20;

bool lies_on_host(memory_kind kind) {
  return kind == memory_kind::host || kind == memory_kind::host_pool;
}

// Each reading thread announces in a slot of its own the epoch it began in; an index is freed when
// no reader that began before its replacement is left.
struct alignas(64) reader_slot {
  std::atomic<std::uint64_t> epoch{0};
};
constexpr std::size_t reader_slots = 512;
reader_slot slots[reader_slots];
std::atomic<std::size_t> slots_taken{0};

std::size_t own_slot() {
  thread_local const std::size_t slot = slots_taken.fetch_add(1);
  return slot;
}

std::uint64_t host_memory_bytes() {
  struct sysinfo information {};
  if (sysinfo(&information) != 0) return 1ull << 32;
  return std::uint64_t{information.totalram} * information.mem_unit;
}

}  // namespace

// Sorted by base. Immutable once published, and shared by successive indexes.
struct memory_table::chunk {
  std::vector<allocation> entries;
};

struct memory_table::index {
  std::vector<std::uint64_t> first;  // base of the first entry of each chunk
  std::vector<std::shared_ptr<const chunk>> chunks;

  std::size_t chunk_of(std::uint64_t address) const {
    auto after = std::upper_bound(first.begin(), first.end(), address);
    return after == first.begin() ? 0 : static_cast<std::size_t>(after - first.begin()) - 1;
  }
  std::optional<allocation> find(std::uint64_t address) const {
    if (chunks.empty()) return std::nullopt;
    const auto& entries = chunks[chunk_of(address)]->entries;
    auto after = std::upper_bound(
        entries.begin(), entries.end(), address,
        [](std::uint64_t key, const allocation& entry) { return key < entry.base; });
    if (after == entries.begin()) return std::nullopt;
    --after;
    if (!after->contains(address)) return std::nullopt;
    return *after;
  }
};

memory_table& memory_table::instance() {
  static auto* only = new memory_table;
  return *only;
}

memory_table::memory_table() : current_(new index) {}

void memory_table::publish(std::unique_ptr<index> next) {
  std::unique_ptr<const index> old(current_.exchange(next.release()));
  const std::uint64_t now = epoch_.fetch_add(1) + 1;
  retired_.push_back({now, std::move(old)});
  const std::size_t readers = std::min(slots_taken.load(), reader_slots);
  std::erase_if(retired_, [&](const retired& candidate) {
    for (std::size_t slot = 0; slot < readers; ++slot) {
      const std::uint64_t began = slots[slot].epoch.load();
      if (began != 0 && began < candidate.epoch) return false;
    }
    return true;
  });
}

std::optional<allocation> memory_table::find_from_kernel(std::uint64_t address) const {
  const std::size_t slot = own_slot();
  if (slot >= reader_slots) return find(address);
  slots[slot].epoch.store(epoch_.load());
  auto found = current_.load()->find(address);
  slots[slot].epoch.store(0, std::memory_order_release);
  return found;
}

std::optional<allocation> memory_table::find(std::uint64_t address) const {
  std::lock_guard lock(mutex_);
  return current_.load()->find(address);
}

std::optional<allocation> memory_table::find_range(std::uint64_t address,
                                                   std::uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  const auto& now = *current_.load();
  auto first = now.find(address);
  for (auto part = first; part; part = now.find(address)) {
    if (part->contains(address, bytes)) return first;
    if (part->kind != memory_kind::mapped || first->kind != memory_kind::mapped) break;
    const std::uint64_t inside = part->base + part->bytes - address;
    address += inside;
    bytes -= inside;
  }
  return std::nullopt;
}

void memory_table::insert(const allocation& entry) {
  auto next = std::make_unique<index>(*current_.load());
  if (next->chunks.empty()) {
    next->chunks.push_back(std::make_shared<chunk>(chunk{{entry}}));
    next->first.push_back(entry.base);
    return publish(std::move(next));
  }
  const std::size_t place = next->chunk_of(entry.base);
  auto changed = std::make_shared<chunk>(*next->chunks[place]);
  auto& entries = changed->entries;
  entries.insert(
      std::upper_bound(entries.begin(), entries.end(), entry.base,
                       [](std::uint64_t key, const allocation& other) { return key < other.base; }),
      entry);
  if (entries.size() > chunk_entries_max) {
    const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(entries.size() / 2);
    auto upper = std::make_shared<chunk>();
    upper->entries.assign(middle, entries.end());
    entries.erase(middle, entries.end());
    next->first.insert(next->first.begin() + static_cast<std::ptrdiff_t>(place) + 1,
                       upper->entries.front().base);
    next->chunks.insert(next->chunks.begin() + static_cast<std::ptrdiff_t>(place) + 1,
                        std::move(upper));
  }
  next->first[place] = entries.front().base;
  next->chunks[place] = std::move(changed);
  publish(std::move(next));
}

void memory_table::erase(std::uint64_t base) {
  auto next = std::make_unique<index>(*current_.load());
  const std::size_t place = next->chunk_of(base);
  auto changed = std::make_shared<chunk>(*next->chunks[place]);
  std::erase_if(changed->entries, [&](const allocation& entry) { return entry.base == base; });
  const auto at = static_cast<std::ptrdiff_t>(place);
  if (changed->entries.empty()) {
    next->chunks.erase(next->chunks.begin() + at);
    next->first.erase(next->first.begin() + at);
  } else {
    next->first[place] = changed->entries.front().base;
    next->chunks[place] = std::move(changed);
  }
  publish(std::move(next));
}

void memory_table::replace(const allocation& entry) {
  auto next = std::make_unique<index>(*current_.load());
  const std::size_t place = next->chunk_of(entry.base);
  auto changed = std::make_shared<chunk>(*next->chunks[place]);
  for (auto& known : changed->entries) {
    if (known.base == entry.base) known = entry;
  }
  next->chunks[place] = std::move(changed);
  publish(std::move(next));
}

arena& memory_table::arena_of(const device& on, memory_kind kind) {
  const bool host = lies_on_host(kind);
  auto& slot = arenas_[host ? host_arena : on.ordinal];
  // Twice the memory, so that fragmentation of addresses is not what ends an allocation.
  if (!slot) {
    slot = host ? std::make_unique<arena>(host_memory_bytes())
                : std::make_unique<arena>(2 * on.memory_bytes, memory_file_name(on.ordinal));
  }
  return *slot;
}

std::optional<allocation> memory_table::allocate(const device& on,
                                                 const allocation_request& request) {
  std::lock_guard lock(mutex_);
  auto address = take(on, request.kind, request.bytes, request.align);
  if (!address) return std::nullopt;
  allocation entry;
  entry.base = *address;
  entry.bytes = request.bytes;
  entry.kind = request.kind;
  entry.writable = request.writable;
  entry.context_id = request.context_id;
  entry.device_ordinal = on.ordinal;
  entry.flags = request.flags;
  entry.managed = request.managed;
  entry.buffer_id = ++last_buffer_id_;
  insert(entry);
  return entry;
}

std::optional<std::uint64_t> memory_table::take(const device& on, memory_kind kind,
                                                std::uint64_t bytes, std::uint64_t align) {
  const bool host = lies_on_host(kind);
  const std::uint64_t limit = host ? host_memory_bytes() : on.memory_bytes;
  auto& used = used_[host ? host_arena : on.ordinal];
  if (bytes > limit || arena::rounded(bytes) > limit - std::min(used, limit)) return std::nullopt;
  auto address = arena_of(on, kind).allocate(bytes + guard_bytes, align);
  if (address) used += arena::rounded(bytes);
  return address;
}

void memory_table::give_back(int device_ordinal, memory_kind kind, std::uint64_t base,
                             std::uint64_t bytes) {
  const int key = lies_on_host(kind) ? host_arena : device_ordinal;
  arenas_[key]->release(base, bytes + guard_bytes);
  used_[key] -= arena::rounded(bytes);
}

std::optional<std::uint64_t> memory_table::reserve_backing(const device& on, memory_kind kind,
                                                           std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  return take(on, kind, bytes, backing_align);
}

void memory_table::release_backing(const device& on, memory_kind kind, std::uint64_t base,
                                   std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  give_back(on.ordinal, kind, base, bytes);
}

std::uint64_t memory_table::enter(allocation part) {
  std::lock_guard lock(mutex_);
  if (part.buffer_id == 0) part.buffer_id = ++last_buffer_id_;
  auto known = current_.load()->find(part.base);
  if (known && known->base == part.base) {
    replace(part);
  } else {
    insert(part);
  }
  return part.buffer_id;
}

void memory_table::remove_entry(std::uint64_t base, std::uint64_t buffer_id) {
  std::lock_guard lock(mutex_);
  auto known = current_.load()->find(base);
  if (known && known->base == base && known->buffer_id == buffer_id) erase(base);
}

void memory_table::resize(std::uint64_t base, std::uint64_t buffer_id, std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  auto known = current_.load()->find(base);
  if (!known || known->base != base || known->buffer_id != buffer_id) return;
  known->bytes = bytes;
  replace(*known);
}

void memory_table::set_access(std::uint64_t base, std::uint64_t bytes, std::uint16_t readers,
                              std::uint16_t writers) {
  std::lock_guard lock(mutex_);
  std::vector<allocation> changed;
  for (const auto& part : current_.load()->chunks) {
    for (const auto& entry : part->entries) {
      if (!entry.has_context() && entry.base >= base && entry.base - base < bytes)
        changed.push_back(entry);
    }
  }
  for (auto& entry : changed) {
    entry.readers = readers;
    entry.writers = writers;
    replace(entry);
  }
}

bool memory_table::add_registered(allocation range) {
  std::lock_guard lock(mutex_);
  const index& now = *current_.load();
  for (const auto& part : now.chunks) {
    for (const auto& entry : part->entries) {
      if (entry.base < range.base + range.bytes && range.base < entry.base + entry.bytes)
        return false;
    }
  }
  range.buffer_id = ++last_buffer_id_;
  insert(range);
  return true;
}

void memory_table::release(const allocation& entry) {
  if (entry.kind == memory_kind::registered || !entry.has_context()) return;
  if (entry.kind == memory_kind::imported) return unmap_shared(entry.base, entry.bytes);
  give_back(entry.device_ordinal, entry.kind, entry.base, entry.bytes);
}

std::optional<allocation> memory_table::remove(std::uint64_t base,
                                               std::initializer_list<memory_kind> kinds) {
  std::lock_guard lock(mutex_);
  auto found = current_.load()->find(base);
  if (!found || found->base != base ||
      std::find(kinds.begin(), kinds.end(), found->kind) == kinds.end()) {
    return std::nullopt;
  }
  erase(base);
  release(*found);
  return found;
}

void memory_table::remove_exactly(const allocation& entry) {
  std::lock_guard lock(mutex_);
  auto found = current_.load()->find(entry.base);
  if (!found || found->buffer_id != entry.buffer_id) return;
  erase(entry.base);
  release(*found);
}

void memory_table::remove_of_context(unsigned context_id) {
  std::lock_guard lock(mutex_);
  std::vector<allocation> gone;
  for (const auto& part : current_.load()->chunks) {
    for (const auto& entry : part->entries) {
      if (entry.context_id == context_id) gone.push_back(entry);
    }
  }
  for (const auto& entry : gone) {
    erase(entry.base);
    release(entry);
  }
}

bool memory_table::is_reserved(std::uint64_t address) const {
  std::lock_guard lock(mutex_);
  for (const auto& [key, window] : arenas_) {
    if (window->contains(address)) return true;
  }
  auto after = reservations_.upper_bound(address);
  return after != reservations_.begin() && (--after, address - after->first < after->second);
}

std::optional<memory_table::shared_place> memory_table::shared_place_of(
    std::uint64_t address) const {
  std::lock_guard lock(mutex_);
  auto found = current_.load()->find(address);
  if (!found || found->kind != memory_kind::device) return std::nullopt;
  const auto& window = *arenas_.at(found->device_ordinal);
  if (window.file() < 0) return std::nullopt;
  return shared_place{window.file(), window.offset_of(found->base), *found};
}

void memory_table::add_reservation(std::uint64_t base, std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  reservations_.emplace(base, bytes);
}

void memory_table::remove_reservation(std::uint64_t base) {
  std::lock_guard lock(mutex_);
  reservations_.erase(base);
}

bool memory_table::charge(const device& on, std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  auto& used = used_[on.ordinal];
  if (bytes > on.memory_bytes - std::min(used, on.memory_bytes)) return false;
  used += bytes;
  return true;
}

void memory_table::discharge(const device& on, std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  used_[on.ordinal] -= bytes;
}

std::uint64_t memory_table::used_bytes(int device_ordinal) const {
  std::lock_guard lock(mutex_);
  auto found = used_.find(device_ordinal);
  return found == used_.end() ? 0 : found->second;
}

std::optional<ptx::memory::range> context_memory::resolve(std::uint64_t address) const {
  auto found = memory_table::instance().find_from_kernel(address);
  if (!found) return std::nullopt;
  if (!found->has_context()) {
    if ((found->readers & device_bit_) == 0) return std::nullopt;
    return range{found->base, found->bytes, reinterpret_cast<std::byte*>(found->base),
                 (found->writers & device_bit_) != 0};
  }
  if (!found->is_host() && !found->managed && found->context_id != context_id_ &&
      !has_peer(found->context_id))
    return std::nullopt;
  return range{found->base, found->bytes, reinterpret_cast<std::byte*>(found->base),
               found->writable};
}

bool context_memory::add_peer(unsigned context_id) {
  for (auto& peer : peers_) {
    unsigned empty = 0;
    if (peer.compare_exchange_strong(empty, context_id)) return true;
  }
  return false;
}

bool context_memory::remove_peer(unsigned context_id) {
  for (auto& peer : peers_) {
    unsigned expected = context_id;
    if (peer.compare_exchange_strong(expected, 0)) return true;
  }
  return false;
}

bool context_memory::has_peer(unsigned context_id) const {
  for (const auto& peer : peers_) {
    if (peer.load(std::memory_order_relaxed) == context_id) return true;
  }
  return false;
}

void context_memory::clear_peers() {
  for (auto& peer : peers_) peer = 0;
}

}  // namespace gpuwire::softgpu
