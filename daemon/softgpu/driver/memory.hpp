// SPDX-License-Identifier: Apache-2.0
// All memory that a device address can name: device allocations, pinned and registered host memory,
// the variables of modules, the heaps of kernels. Device memory is host memory, and a device
// address is the host's address of it.
//
// Changed by API threads under a mutex. Compute threads look addresses up in an immutable index
// without any lock: they run at idle priority, and an API thread must never wait for one of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "../ptx/program.hpp"
#include "arena.hpp"

namespace gpuwire::softgpu {

struct device;

// Memory of a pool and mapped memory belong to no context: which devices may use them is in the
// allocation's masks.
enum class memory_kind : std::uint8_t {
  device,
  host,
  registered,
  module,
  heap,
  pool,
  host_pool,
  mapped,
  imported  // of another process
};

struct allocation {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  memory_kind kind = memory_kind::device;
  bool writable = true;  // by kernels; the host may write constants
  unsigned context_id = 0;
  int device_ordinal = 0;
  unsigned flags = 0;           // as given to cuMemHostAlloc or cuMemHostRegister
  std::uint64_t buffer_id = 0;  // CU_POINTER_ATTRIBUTE_BUFFER_ID: never given out twice
  // For the kinds without a context: one bit for each device that may read, and that may write.
  std::uint16_t readers = 0;
  std::uint16_t writers = 0;
  bool managed = false;         // device memory that the program may touch

  bool is_host() const {
    return kind == memory_kind::host || kind == memory_kind::registered ||
           kind == memory_kind::host_pool;
  }
  bool has_context() const {
    return kind != memory_kind::pool && kind != memory_kind::host_pool &&
           kind != memory_kind::mapped;
  }
  bool contains(std::uint64_t address) const { return address - base < bytes; }
  bool contains(std::uint64_t address, std::uint64_t count) const {
    return contains(address) && count <= bytes - (address - base);
  }
};

struct allocation_request {
  std::uint64_t bytes = 0;
  std::uint64_t align = 512;
  memory_kind kind = memory_kind::device;
  bool writable = true;
  unsigned context_id = 0;
  unsigned flags = 0;
  bool managed = false;
};

class memory_table {
 public:
  static memory_table& instance();

  // From the device's arena, or from the host's for memory_kind::host. Nothing when that memory is
  // exhausted.
  std::optional<allocation> allocate(const device& on, const allocation_request& request);
  // Refused (false) when a part of the range is known already.
  bool add_registered(allocation range);
  // Takes out the allocation that begins at `base` and is of one of the kinds; nothing when there
  // is none.
  std::optional<allocation> remove(std::uint64_t base, std::initializer_list<memory_kind> kinds);
  // Takes out this very allocation, if it is still there.
  void remove_exactly(const allocation& entry);
  void remove_of_context(unsigned context_id);

  std::optional<allocation> find(std::uint64_t address) const;
  // The allocation that contains the whole range. Mapped memory counts as one as far as mappings
  // follow each other without a gap; the first of them is returned.
  std::optional<allocation> find_range(std::uint64_t address, std::uint64_t bytes) const;
  // find(), lock-free, for compute threads.
  std::optional<allocation> find_from_kernel(std::uint64_t address) const;
  // True for an address that this library reserved, whether it is a live allocation or not.
  bool is_reserved(std::uint64_t address) const;

  std::uint64_t used_bytes(int device_ordinal) const;

  // Where device memory lies for another process: nothing for other memory.
  struct shared_place {
    int file = -1;
    std::uint64_t offset = 0;
    allocation whole;
  };
  std::optional<shared_place> shared_place_of(std::uint64_t address) const;
  // Address space without memory that is known to is_reserved().
  void add_reservation(std::uint64_t base, std::uint64_t bytes);
  void remove_reservation(std::uint64_t base);
  // Memory that lies elsewhere but is the device's: false when there is not so much left.
  bool charge(const device& on, std::uint64_t bytes);
  void discharge(const device& on, std::uint64_t bytes);
  // Memory that counts as used but that no address names yet. Its owner enters the parts it gives
  // out, and takes them out again before it gives the memory back.
  std::optional<std::uint64_t> reserve_backing(const device& on, memory_kind kind,
                                               std::uint64_t bytes);
  void release_backing(const device& on, memory_kind kind, std::uint64_t base, std::uint64_t bytes);
  // Enters a part, or replaces the entry that begins at the same address in one step, so that a
  // running kernel never misses it. Returns the part's new buffer id, or the one given if not 0.
  std::uint64_t enter(allocation part);
  // Takes such a part out, if it is still the one with this buffer id.
  void remove_entry(std::uint64_t base, std::uint64_t buffer_id);
  // Changes the entry at `base` if it is still the one with this buffer id.
  void resize(std::uint64_t base, std::uint64_t buffer_id, std::uint64_t bytes);
  // Changes which devices may use every entry inside the range.
  void set_access(std::uint64_t base, std::uint64_t bytes, std::uint16_t readers,
                  std::uint16_t writers);

 private:
  struct chunk;
  struct index;
  struct retired {
    std::uint64_t epoch;
    std::unique_ptr<const index> old;
  };

  memory_table();
  arena& arena_of(const device& on, memory_kind kind);
  void insert(const allocation& entry);
  void replace(const allocation& entry);
  void erase(std::uint64_t base);
  void publish(std::unique_ptr<index> next);
  void release(const allocation& entry);
  std::optional<std::uint64_t> take(const device& on, memory_kind kind, std::uint64_t bytes,
                                    std::uint64_t align);
  void give_back(int device_ordinal, memory_kind kind, std::uint64_t base, std::uint64_t bytes);

  mutable std::mutex mutex_;
  std::map<int, std::unique_ptr<arena>> arenas_;  // by device; -1 is the host's
  std::map<int, std::uint64_t> used_;
  std::map<std::uint64_t, std::uint64_t> reservations_;  // base -> bytes
  std::uint64_t last_buffer_id_ = 0;
  std::atomic<const index*> current_;
  mutable std::atomic<std::uint64_t> epoch_{1};
  std::vector<retired> retired_;
};

// What the kernels of one context see.
class context_memory final : public ptx::memory {
 public:
  context_memory(unsigned context_id, int device_ordinal)
      : context_id_(context_id), device_bit_(static_cast<std::uint16_t>(1u << device_ordinal)) {}
  std::optional<range> resolve(std::uint64_t address) const override;

  // Peer access: the memory of another context becomes visible. False when there are too many.
  bool add_peer(unsigned context_id);
  bool remove_peer(unsigned context_id);
  bool has_peer(unsigned context_id) const;
  void clear_peers();

 private:
  unsigned context_id_;
  std::uint16_t device_bit_;
  std::array<std::atomic<unsigned>, 16> peers_{};
};

}  // namespace gpuwire::softgpu
