// SPDX-License-Identifier: Apache-2.0
// Memory pools: stream-ordered allocation.
//
// A pool takes large chunks of backing memory and cuts blocks from them. A block that was freed in
// a stream can be given out again at once to the same stream, and to others when the free has
// happened. Chunks that hold no block go back when the pool is trimmed.
//
// API threads and the threads that run operations use a pool under its mutex; below it are only the
// mutexes of the registry of chunks and of the memory table.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "context.hpp"
#include "handles.hpp"
#include "memory.hpp"
#include "stream.hpp"

namespace gpuwire::softgpu {

class memory_pool : public std::enable_shared_from_this<memory_pool> {
 public:
  memory_pool(device& on, CUmemoryPool handle, memory_kind kind, std::uint64_t bytes_max);

  device& on;
  const CUmemoryPool handle;
  const memory_kind kind;  // pool or host_pool

  // The block is the stream's from here on. Refuses with CUDA_ERROR_OUT_OF_MEMORY.
  std::uint64_t allocate(const std::shared_ptr<stream>& to, std::uint64_t bytes);
  // Refuses with CUDA_ERROR_INVALID_VALUE for what is no live block.
  void free(std::uint64_t address, const std::shared_ptr<stream>& in);
  void free_at_once(std::uint64_t address);

  void trim(std::uint64_t bytes_to_keep);
  // What a synchronise does: keeps no more than the threshold.
  void trim_to_threshold();
  // The handle is gone: the memory follows as its blocks are freed.
  void retire();

  std::uint64_t attribute(CUmemPool_attribute which);
  void set_attribute(CUmemPool_attribute which, std::uint64_t value);
  CUmemAccess_flags access_of(int device_ordinal);
  void set_access(int device_ordinal, CUmemAccess_flags flags);

 private:
  enum class block_state { live, freeing };
  struct block {
    std::uint64_t bytes = 0;  // a multiple of the arena's granule
    std::uint64_t requested = 0;
    std::uint64_t buffer_id = 0;  // changes with every use: an old free does not end a new use
    block_state state = block_state::live;
    std::optional<fence> freed_at;  // known a moment after the free was submitted
  };
  struct reuse {
    std::uint64_t address = 0;
    fence after;
  };

  std::optional<std::uint64_t> cut(std::uint64_t bytes);
  bool grow(std::uint64_t bytes);
  std::optional<reuse> find_freeing(const stream* of, std::uint64_t bytes) const;
  std::uint64_t enter(std::uint64_t address, block& which, std::uint64_t visible_bytes);
  void free_happened(std::uint64_t address, std::uint64_t buffer_id);
  void take_out(std::map<std::uint64_t, block>::iterator which);
  void add_free(std::uint64_t address, std::uint64_t bytes);
  void trim_locked(std::uint64_t bytes_to_keep);
  void count_used(std::uint64_t bytes);

  std::mutex mutex_;
  const std::uint64_t bytes_max_;
  std::map<std::uint64_t, std::uint64_t> chunks_;  // base -> bytes
  std::map<std::uint64_t, std::uint64_t> free_;    // address -> bytes, within one chunk
  std::map<std::uint64_t, block> blocks_;
  bool retired_ = false;
  std::uint64_t reserved_ = 0, reserved_high_ = 0;
  std::uint64_t used_ = 0, used_high_ = 0;
  std::uint64_t threshold_ = 0;
  bool follow_events_ = true, opportunistic_ = true, internal_dependencies_ = true;
  std::uint16_t readers_ = 0, writers_ = 0;
};

using pool_table = handle_table<memory_pool, CUmemoryPool, handle_kind::pool>;
pool_table& pools();
// Refuses with CUDA_ERROR_INVALID_VALUE.
std::shared_ptr<memory_pool> pool_of(CUmemoryPool handle);
// The pool from whose memory an address is; null for other memory.
std::shared_ptr<memory_pool> pool_at(std::uint64_t address);
// Called by every API function that waits for work.
void trim_pools_after_wait();

// Where allocations without a pool argument come from. `ordinal` -1 is the host.
std::shared_ptr<memory_pool> default_pool(int ordinal);
std::shared_ptr<memory_pool> current_pool(int ordinal);
void set_current_pool(int ordinal, const std::shared_ptr<memory_pool>& pool);
// For a pool that is destroyed.
void forget_current_pool(const memory_pool& pool);

}  // namespace gpuwire::softgpu
