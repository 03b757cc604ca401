// SPDX-License-Identifier: Apache-2.0
#include "pool.hpp"

#include <algorithm>
#include <atomic>

#include "guard.hpp"
#include "scheduler.hpp"

namespace gpuwire::softgpu {
namespace {

constexpr std::uint64_t chunk_granule = 32ull << 20;

// Which pool the backing memory at an address belongs to. It keeps a destroyed pool alive until the
// last of its blocks is freed.
struct chunk_registry {
  struct entry {
    std::uint64_t bytes = 0;
    std::shared_ptr<memory_pool> owner;
  };
  std::mutex mutex;
  std::map<std::uint64_t, entry> chunks;
  std::atomic<std::size_t> count{0};  // so that a synchronise without pools costs nothing
};

chunk_registry& registry() {
  static auto* only = new chunk_registry;
  return *only;
}

std::uint16_t bit_of(int ordinal) {
  return static_cast<std::uint16_t>(1u << ordinal);
}

}  // namespace

memory_pool::memory_pool(device& on, CUmemoryPool handle, memory_kind kind, std::uint64_t bytes_max)
    : on(on),
      handle(handle),
      kind(kind),
      bytes_max_(bytes_max > UINT64_MAX - chunk_granule
                     ? UINT64_MAX
                     : (bytes_max + chunk_granule - 1) / chunk_granule * chunk_granule) {
  if (kind == memory_kind::pool) {
    readers_ = writers_ = bit_of(on.ordinal);
  } else {
    readers_ = writers_ = 0xffff;
  }
}

// ---- backing memory
// -----------------------------------------------------------------------------------------------

bool memory_pool::grow(std::uint64_t bytes) {
  const std::uint64_t room = bytes_max_ - std::min(bytes_max_, reserved_);
  std::uint64_t wanted = (bytes + chunk_granule - 1) / chunk_granule * chunk_granule;
  // The last part of a limited pool or of the device's memory need not be a whole granule.
  if (wanted > room) wanted = arena::rounded(bytes);
  if (wanted < bytes || wanted > room) return false;
  auto base = memory_table::instance().reserve_backing(on, kind, wanted);
  if (!base) {
    wanted = arena::rounded(bytes);
    base = memory_table::instance().reserve_backing(on, kind, wanted);
  }
  if (!base) return false;
  chunks_.emplace(*base, wanted);
  free_.emplace(*base, wanted);
  reserved_ += wanted;
  reserved_high_ = std::max(reserved_high_, reserved_);
  std::lock_guard lock(registry().mutex);
  registry().chunks[*base] = {wanted, shared_from_this()};
  ++registry().count;
  return true;
}

std::optional<std::uint64_t> memory_pool::cut(std::uint64_t bytes) {
  auto best = free_.end();
  for (auto candidate = free_.begin(); candidate != free_.end(); ++candidate) {
    if (candidate->second < bytes) continue;
    if (best == free_.end() || candidate->second < best->second) best = candidate;
  }
  if (best == free_.end()) return std::nullopt;
  const auto [address, room] = *best;
  free_.erase(best);
  if (room > bytes) free_.emplace(address + bytes, room - bytes);
  return address;
}

void memory_pool::add_free(std::uint64_t address, std::uint64_t bytes) {
  // Two chunks may touch, and each goes back as a whole: nothing is merged over a border.
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + bytes && !chunks_.count(next->first)) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && !chunks_.count(address)) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(address, bytes);
}

void memory_pool::trim_locked(std::uint64_t bytes_to_keep) {
  for (auto chunk = chunks_.begin(); chunk != chunks_.end();) {
    const auto [base, bytes] = *chunk;
    auto hole = free_.find(base);
    const bool empty = hole != free_.end() && hole->second == bytes;
    if (!empty || reserved_ < bytes || reserved_ - bytes < bytes_to_keep) {
      ++chunk;
      continue;
    }
    free_.erase(hole);
    chunk = chunks_.erase(chunk);
    reserved_ -= bytes;
    memory_table::instance().release_backing(on, kind, base, bytes);
    // The caller holds this pool: dropping the registry's reference does not end it here.
    std::lock_guard lock(registry().mutex);
    registry().chunks.erase(base);
    --registry().count;
  }
}

void memory_pool::trim(std::uint64_t bytes_to_keep) {
  std::lock_guard lock(mutex_);
  trim_locked(bytes_to_keep);
}

void memory_pool::trim_to_threshold() {
  std::lock_guard lock(mutex_);
  if (reserved_ > threshold_) trim_locked(threshold_);
}

void memory_pool::retire() {
  std::lock_guard lock(mutex_);
  retired_ = true;
  trim_locked(0);
}

// ---- blocks
// -------------------------------------------------------------------------------------------------------

void memory_pool::count_used(std::uint64_t bytes) {
  used_ += bytes;
  used_high_ = std::max(used_high_, used_);
}

// The smallest block that is being freed and fits without wasting half of itself. `of` null: in any
// stream.
std::optional<memory_pool::reuse> memory_pool::find_freeing(const stream* of,
                                                            std::uint64_t bytes) const {
  std::optional<reuse> best;
  std::uint64_t best_bytes = 0;
  for (const auto& [address, known] : blocks_) {
    if (known.state != block_state::freeing || !known.freed_at) continue;
    if (of != nullptr && known.freed_at->of.get() != of) continue;
    if (known.bytes < bytes || known.bytes / 2 > bytes) continue;
    if (best && known.bytes >= best_bytes) continue;
    best = reuse{address, *known.freed_at};
    best_bytes = known.bytes;
  }
  return best;
}

std::uint64_t memory_pool::enter(std::uint64_t address, block& which, std::uint64_t visible_bytes) {
  allocation part;
  part.base = address;
  part.bytes = visible_bytes;
  part.kind = kind;
  part.device_ordinal = on.ordinal;
  part.readers = readers_;
  part.writers = writers_;
  return which.buffer_id = memory_table::instance().enter(part);
}

std::uint64_t memory_pool::allocate(const std::shared_ptr<stream>& to, std::uint64_t bytes) {
  require(bytes <= bytes_max_, CUDA_ERROR_OUT_OF_MEMORY);
  const std::uint64_t wanted = arena::rounded(bytes);
  std::optional<reuse> again;
  std::uint64_t address = 0, buffer_id = 0;
  {
    std::lock_guard lock(mutex_);
    again = find_freeing(to.get(), wanted);
    if (!again) {
      auto fresh = cut(wanted);
      if (!fresh && grow(wanted)) fresh = cut(wanted);
      if (!fresh && internal_dependencies_) again = find_freeing(nullptr, wanted);
      require(fresh || again, CUDA_ERROR_OUT_OF_MEMORY);
      if (fresh) {
        block made;
        made.bytes = wanted;
        made.requested = bytes;
        enter(*fresh, made, bytes);
        blocks_.emplace(*fresh, made);
        count_used(bytes);
        return *fresh;
      }
    }
    address = again->address;
    block& known = blocks_.at(address);
    // Work before the free still uses the block at its old length.
    buffer_id = enter(address, known, std::max(known.requested, bytes));
    known.requested = bytes;
    known.state = block_state::live;
    known.freed_at.reset();
    count_used(bytes);
  }
  operation narrow;
  narrow.what = operation::kind::work;
  narrow.dependencies.push_back(again->after);
  narrow.run = [address, buffer_id, bytes] {
    memory_table::instance().resize(address, buffer_id, bytes);
  };
  try {
    scheduler::instance().submit(to, std::move(narrow));
  } catch (const refusal&) {  // the stream's context is gone
    free_at_once(address);
    throw;
  }
  return address;
}

void memory_pool::take_out(std::map<std::uint64_t, block>::iterator which) {
  memory_table::instance().remove_entry(which->first, which->second.buffer_id);
  const auto [address, known] = *which;
  blocks_.erase(which);
  add_free(address, known.bytes);
  if (retired_) trim_locked(0);
}

void memory_pool::free(std::uint64_t address, const std::shared_ptr<stream>& in) {
  std::uint64_t buffer_id = 0;
  {
    std::lock_guard lock(mutex_);
    auto found = blocks_.find(address);
    require(found != blocks_.end() && found->second.state == block_state::live);
    found->second.state = block_state::freeing;
    buffer_id = found->second.buffer_id;
    used_ -= found->second.requested;
  }
  operation what;
  what.what = operation::kind::work;
  what.even_after_error = true;
  what.run = [self = shared_from_this(), address, buffer_id] {
    self->free_happened(address, buffer_id);
  };
  fence made;
  try {
    made = scheduler::instance().submit(in, std::move(what));
  } catch (const refusal&) {
    std::lock_guard lock(mutex_);
    auto& kept = blocks_.at(address);
    kept.state = block_state::live;
    count_used(kept.requested);
    throw;
  }
  std::lock_guard lock(mutex_);
  auto found = blocks_.find(address);
  if (found != blocks_.end() && found->second.buffer_id == buffer_id &&
      found->second.state == block_state::freeing) {
    found->second.freed_at = made;
  }
}

void memory_pool::free_happened(std::uint64_t address, std::uint64_t buffer_id) {
  std::lock_guard lock(mutex_);
  auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.buffer_id != buffer_id ||
      found->second.state != block_state::freeing) {
    return;
  }
  take_out(found);
}

void memory_pool::free_at_once(std::uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = blocks_.find(address);
  require(found != blocks_.end() && found->second.state == block_state::live);
  used_ -= found->second.requested;
  take_out(found);
}

// ---- attributes
// ---------------------------------------------------------------------------------------------------

std::uint64_t memory_pool::attribute(CUmemPool_attribute which) {
  std::lock_guard lock(mutex_);
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return follow_events_;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return opportunistic_;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return internal_dependencies_;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return threshold_;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return reserved_;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return reserved_high_;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return used_;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return used_high_;
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

void memory_pool::set_attribute(CUmemPool_attribute which, std::uint64_t value) {
  std::lock_guard lock(mutex_);
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      follow_events_ = value != 0;
      return;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      opportunistic_ = value != 0;
      return;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      internal_dependencies_ = value != 0;
      return;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      threshold_ = value;
      return;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      require(value == 0);
      reserved_high_ = reserved_;
      return;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      require(value == 0);
      used_high_ = used_;
      return;
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

CUmemAccess_flags memory_pool::access_of(int device_ordinal) {
  std::lock_guard lock(mutex_);
  if ((writers_ & bit_of(device_ordinal)) != 0) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if ((readers_ & bit_of(device_ordinal)) != 0) return CU_MEM_ACCESS_FLAGS_PROT_READ;
  return CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

void memory_pool::set_access(int device_ordinal, CUmemAccess_flags flags) {
  std::lock_guard lock(mutex_);
  const std::uint16_t bit = bit_of(device_ordinal);
  readers_ = static_cast<std::uint16_t>(readers_ & ~bit);
  writers_ = static_cast<std::uint16_t>(writers_ & ~bit);
  if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) readers_ = static_cast<std::uint16_t>(readers_ | bit);
  if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    writers_ = static_cast<std::uint16_t>(writers_ | bit);
  for (const auto& [base, bytes] : chunks_)
    memory_table::instance().set_access(base, bytes, readers_, writers_);
}

// ---- all pools
// ----------------------------------------------------------------------------------------------------

pool_table& pools() {
  static auto* table = new pool_table;
  return *table;
}

std::shared_ptr<memory_pool> pool_of(CUmemoryPool handle) {
  auto found = pools().find(handle);
  require(found != nullptr);
  return found;
}

std::shared_ptr<memory_pool> pool_at(std::uint64_t address) {
  auto& all = registry();
  std::lock_guard lock(all.mutex);
  auto after = all.chunks.upper_bound(address);
  if (after == all.chunks.begin()) return nullptr;
  --after;
  return address - after->first < after->second.bytes ? after->second.owner : nullptr;
}

void trim_pools_after_wait() {
  if (registry().count.load() == 0) return;
  std::vector<std::shared_ptr<memory_pool>> owners;
  {
    std::lock_guard lock(registry().mutex);
    for (const auto& [base, entry] : registry().chunks) {
      if (std::find(owners.begin(), owners.end(), entry.owner) == owners.end())
        owners.push_back(entry.owner);
    }
  }
  for (const auto& owner : owners) owner->trim_to_threshold();
}

namespace {

struct chosen_pools {
  std::mutex mutex;
  std::map<int, std::shared_ptr<memory_pool>> defaults;
  std::map<int, std::shared_ptr<memory_pool>> current;
};

chosen_pools& chosen() {
  static auto* only = new chosen_pools;
  return *only;
}

}  // namespace

std::shared_ptr<memory_pool> default_pool(int ordinal) {
  auto& all = chosen();
  std::lock_guard lock(all.mutex);
  auto& slot = all.defaults[ordinal];
  if (!slot) {
    const CUmemoryPool handle = pools().mint();
    const bool host = ordinal < 0;
    slot = std::make_shared<memory_pool>(*devices()[static_cast<std::size_t>(host ? 0 : ordinal)],
                                         handle, host ? memory_kind::host_pool : memory_kind::pool,
                                         UINT64_MAX);
    pools().insert(handle, slot);
  }
  return slot;
}

std::shared_ptr<memory_pool> current_pool(int ordinal) {
  {
    auto& all = chosen();
    std::lock_guard lock(all.mutex);
    auto found = all.current.find(ordinal);
    if (found != all.current.end()) return found->second;
  }
  return default_pool(ordinal);
}

void set_current_pool(int ordinal, const std::shared_ptr<memory_pool>& pool) {
  auto& all = chosen();
  std::lock_guard lock(all.mutex);
  all.current[ordinal] = pool;
}

void forget_current_pool(const memory_pool& pool) {
  auto& all = chosen();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.current, [&](const auto& entry) { return entry.second.get() == &pool; });
}

}  // namespace gpuwire::softgpu
