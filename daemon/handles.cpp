// SPDX-License-Identifier: Apache-2.0
#include "daemon/handles.hpp"

#include <algorithm>

namespace gpuwire::daemon {

handle_table::handle_table(std::uint8_t kind, std::uint32_t first_index)
    : kind_(kind), first_index_(first_index), next_index_(first_index) {}

handle_table::~handle_table() {
  for (auto& c : chunks_) delete c.load();
}

handle_table::entry* handle_table::at(std::uint32_t index) const {
  if (index >= limits::handle_index_end) return nullptr;
  auto* c = chunks_[index / chunk_entries].load(std::memory_order_acquire);
  return c == nullptr ? nullptr : &(*c)[index % chunk_entries];
}

handle_table::entry* handle_table::make(std::uint32_t index) {
  if (index >= limits::handle_index_end) return nullptr;
  auto& slot = chunks_[index / chunk_entries];
  if (slot.load(std::memory_order_relaxed) == nullptr)
    slot.store(new chunk, std::memory_order_release);
  return at(index);
}

std::optional<handle_table::record> handle_table::read(const entry& e,
                                                       std::uint32_t generation) const {
  const auto tag = e.tag.load(std::memory_order_acquire);
  if (tag != (generation << 1 | 1)) return std::nullopt;
  record r{e.native.load(std::memory_order_acquire), e.context.load(std::memory_order_acquire)};
  // A change in between raises the generation, so an unchanged tag means that both values belong
  // together.
  if (e.tag.load(std::memory_order_acquire) != tag || r.native == nullptr) return std::nullopt;
  return r;
}

std::optional<handle_table::record> handle_table::find(wire::handle_id id) const {
  if (wire::handle_server(id) != 0 || wire::handle_kind_of(id) != kind_) return std::nullopt;
  const auto* e = at(wire::handle_index(id));
  return e == nullptr ? std::nullopt : read(*e, wire::handle_generation(id));
}

std::optional<handle_table::record> handle_table::find_index(std::uint32_t index) const {
  const auto* e = at(index);
  return e == nullptr ? std::nullopt : read(*e, e->tag.load(std::memory_order_acquire) >> 1);
}

bool handle_table::is_stale(wire::handle_id id) const {
  if (wire::handle_server(id) != 0 || wire::handle_kind_of(id) != kind_) return false;
  const auto* e = at(wire::handle_index(id));
  if (e == nullptr) return false;
  const auto tag = e->tag.load(std::memory_order_acquire);
  const auto generation = wire::handle_generation(id);
  return generation != 0 && (generation < tag >> 1 || (generation == tag >> 1 && (tag & 1) == 0));
}

void handle_table::fill(entry& e, std::uint32_t generation, void* native,
                        const handle_owner& owner) {
  e.native.store(native, std::memory_order_release);
  e.context.store(owner.context, std::memory_order_release);
  e.parent = owner.parent;
  e.held = true;
  e.tag.store(generation << 1 | (native != nullptr ? 1 : 0), std::memory_order_release);
  ++size_;
}

void* handle_table::clear(std::uint32_t, entry& e) {
  e.tag.store(e.tag.load(std::memory_order_relaxed) & ~1u, std::memory_order_release);
  void* native = e.native.exchange(nullptr, std::memory_order_acq_rel);
  e.parent = 0;
  e.held = false;
  --size_;
  if (native != nullptr) by_native_.erase(native);
  return native;
}

wire::handle_id handle_table::mint(void* native, const handle_owner& owner) {
  if (native == nullptr) return 0;
  std::lock_guard lock(mutex_);
  if (const auto known = by_native_.find(native); known != by_native_.end()) return known->second;
  std::uint32_t index;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    index = next_index_;
    if (index >= limits::handle_index_end) return 0;
    ++next_index_;
  }
  auto& e = *make(index);
  auto generation = ((e.tag.load(std::memory_order_relaxed) >> 1) + 1) & 0xffff;
  if (generation == 0) generation = 1;
  fill(e, generation, native, owner);
  const auto id = wire::make_handle(0, kind_, static_cast<std::uint16_t>(generation), index);
  by_native_.emplace(native, id);
  return id;
}

bool handle_table::place(wire::handle_id id, void* native, const handle_owner& owner) {
  if (wire::handle_server(id) != 0 || wire::handle_kind_of(id) != kind_ ||
      wire::handle_index(id) < first_index_)
    return false;
  std::lock_guard lock(mutex_);
  auto* e = make(wire::handle_index(id));
  if (e == nullptr || e->held) return false;
  fill(*e, wire::handle_generation(id), native, owner);
  return true;
}

wire::handle_id handle_table::place_at(std::uint32_t index, void* native) {
  std::lock_guard lock(mutex_);
  auto* e = make(index);
  if (e == nullptr) return 0;
  if (e->held) clear(index, *e);
  fill(*e, 1, native, {});
  const auto id = wire::make_handle(0, kind_, 1, index);
  if (native != nullptr) by_native_[native] = id;
  return id;
}

std::optional<handle_table::record> handle_table::remove(wire::handle_id id) {
  if (wire::handle_server(id) != 0 || wire::handle_kind_of(id) != kind_) return std::nullopt;
  std::lock_guard lock(mutex_);
  const auto index = wire::handle_index(id);
  auto* e = at(index);
  if (e == nullptr || !e->held || e->tag.load() >> 1 != wire::handle_generation(id))
    return std::nullopt;
  const auto context = e->context.load();
  const bool minted_here = by_native_.count(e->native.load()) != 0;
  void* native = clear(index, *e);
  if (minted_here && index >= first_index_) free_.push_back(index);
  if (native == nullptr) return std::nullopt;
  return record{native, context};
}

void handle_table::put_back(wire::handle_id id, void* native, const handle_owner& owner) {
  std::lock_guard lock(mutex_);
  const auto index = wire::handle_index(id);
  const auto free = std::find(free_.begin(), free_.end(), index);
  auto* e = at(index);
  if (free == free_.end() || e == nullptr || e->held) return;
  free_.erase(free);
  fill(*e, wire::handle_generation(id), native, owner);
  by_native_.emplace(native, id);
}

namespace {
template <class Matches, class Chunks, class Clear>
std::vector<void*> remove_where(Chunks& chunks, std::uint32_t chunk_entries, const Matches& matches,
                                const Clear& clear) {
  std::vector<void*> removed;
  for (std::uint32_t c = 0; c < chunks.size(); ++c) {
    auto* entries = chunks[c].load();
    if (entries == nullptr) continue;
    for (std::uint32_t i = 0; i < chunk_entries; ++i) {
      auto& e = (*entries)[i];
      if (!e.held || !matches(e)) continue;
      if (void* native = clear(c * chunk_entries + i, e)) removed.push_back(native);
    }
  }
  return removed;
}
}  // namespace

std::vector<void*> handle_table::remove_context(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  return remove_where(
      chunks_, chunk_entries,
      [&](const entry& e) { return context != 0 && e.context.load() == context; },
      [this](std::uint32_t index, entry& e) {
        const bool minted_here = by_native_.count(e.native.load()) != 0;
        void* native = clear(index, e);
        if (minted_here) free_.push_back(index);
        return native;
      });
}

std::vector<void*> handle_table::remove_parent(wire::handle_id parent) {
  std::lock_guard lock(mutex_);
  return remove_where(
      chunks_, chunk_entries, [&](const entry& e) { return parent != 0 && e.parent == parent; },
      [this](std::uint32_t index, entry& e) {
        void* native = clear(index, e);
        free_.push_back(index);
        return native;
      });
}

std::vector<wire::handle_id> handle_table::remove_family(wire::handle_id parent) {
  std::vector<wire::handle_id> removed;
  std::lock_guard lock(mutex_);
  remove_where(
      chunks_, chunk_entries, [&](const entry& e) { return parent != 0 && e.parent == parent; },
      [&](std::uint32_t index, entry& e) {
        const auto generation = static_cast<std::uint16_t>(e.tag.load() >> 1);
        removed.push_back(wire::make_handle(0, kind_, generation, index));
        void* native = clear(index, e);
        free_.push_back(index);
        return native;
      });
  return removed;
}

wire::handle_id handle_table::id_of(const void* native) const {
  if (native == nullptr) return 0;
  std::lock_guard lock(mutex_);
  if (const auto known = by_native_.find(const_cast<void*>(native)); known != by_native_.end())
    return known->second;
  for (std::uint32_t c = 0; c < chunks_.size(); ++c) {
    const auto* entries = chunks_[c].load();
    if (entries == nullptr) continue;
    for (std::uint32_t i = 0; i < chunk_entries; ++i) {
      const auto& e = (*entries)[i];
      if (!e.held || e.native.load() != native) continue;
      return wire::make_handle(0, kind_, static_cast<std::uint16_t>(e.tag.load() >> 1),
                               c * chunk_entries + i);
    }
  }
  return 0;
}

wire::handle_id handle_table::parent_of(wire::handle_id id) const {
  std::lock_guard lock(mutex_);
  const auto* e = at(wire::handle_index(id));
  return e != nullptr && e->held && e->tag.load() >> 1 == wire::handle_generation(id) ? e->parent
                                                                                      : 0;
}

std::size_t handle_table::size() const {
  std::lock_guard lock(mutex_);
  return size_;
}

}  // namespace gpuwire::daemon
