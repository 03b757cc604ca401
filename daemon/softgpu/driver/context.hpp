// SPDX-License-Identifier: Apache-2.0
// Contexts, and which one is current on each thread.
//
// A primary context exists for the life of the process and is active while it is retained (or was
// made so by the first retain); an explicit one is active from creation to destruction. An inactive
// context has no resources. Members without another remark are changed by API threads only, as CUDA
// demands of its users, or atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_api.hpp"
#include "device.hpp"
#include "handles.hpp"
#include "memory.hpp"
#include "stream.hpp"

namespace gpuwire::softgpu {

class kernel_heap;

class context : public std::enable_shared_from_this<context> {
 public:
  static std::shared_ptr<context> make(device& on, bool primary);
  context(device& on, unsigned id, bool primary, CUcontext handle);

  device& on;
  const unsigned id;  // of this object; see also unique_id
  const bool primary;
  const CUcontext handle;

  void activate(unsigned flags, unsigned api_version);
  // Waits for all work, then frees everything the context owns; its handles become invalid.
  void deactivate();
  bool active() const { return active_.load(std::memory_order_acquire); }

  // CUDA_SUCCESS, or the error a kernel left: it stays until the context is destroyed or reset.
  CUresult error() const { return error_.load(std::memory_order_acquire); }
  void break_with(CUresult code) {
    CUresult none = CUDA_SUCCESS;
    error_.compare_exchange_strong(none, code);
  }

  // Device printf: kept until one of the points at which CUDA flushes it.
  void print(std::string_view text);
  void flush_print();

  std::uint64_t unique_id = 0;  // cuCtxGetId: new with every activation
  std::atomic<unsigned> flags{0};
  unsigned api_version = 0;
  std::mutex state_mutex;  // activation, retain_count
  unsigned retain_count = 0;
  std::atomic<CUfunc_cache> cache_config{CU_FUNC_CACHE_PREFER_NONE};
  std::map<CUlimit, std::size_t> limits;  // state_mutex

  context_memory memory;
  // Made by the first launch; malloc in kernels.
  std::shared_ptr<kernel_heap> heap();
  bool heap_made() const { return heap_made_.load(); }

  std::shared_ptr<stream> legacy;        // stream 0
  std::shared_ptr<stream> housekeeping;  // orders cuCtxRecordEvent

  // Guarded by the scheduler's mutex.
  std::vector<std::shared_ptr<stream>> streams;  // all but the two above
  std::vector<fence> barriers;                   // cuCtxWaitEvent
  std::uint64_t outstanding = 0;                 // operations submitted and not completed
  bool closed = true;

 private:
  std::atomic<bool> active_{false};
  std::atomic<CUresult> error_{CUDA_SUCCESS};
  std::mutex print_mutex_;
  std::string printed_;
  std::atomic<bool> has_printed_{false};
  std::mutex heap_mutex_;
  std::shared_ptr<kernel_heap> heap_;
  std::atomic<bool> heap_made_{false};
};

using context_table = handle_table<context, CUcontext, handle_kind::context>;
context_table& contexts();
// Refuses with `otherwise` for a handle that is not a context's.
std::shared_ptr<context> context_of(CUcontext handle,
                                    CUresult otherwise = CUDA_ERROR_INVALID_CONTEXT);
// The same, and null means the current context.
std::shared_ptr<context> context_or_current(CUcontext handle);

std::uint64_t next_unique_id();

// The calling thread's stack of contexts; entries may be null (cuCtxSetCurrent(NULL) clears the
// top).
std::vector<std::shared_ptr<context>>& context_stack();

// Malloc and free of kernels, in one block of device memory. Compute threads only use it, under a
// mutex of its own.
class kernel_heap {
 public:
  kernel_heap(std::uint64_t base, std::uint64_t bytes) { free_.emplace(base, bytes); }
  std::uint64_t allocate(std::uint64_t bytes);
  void release(std::uint64_t address);

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> free_;
  std::map<std::uint64_t, std::uint64_t> used_;
};

}  // namespace gpuwire::softgpu
