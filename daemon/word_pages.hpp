// SPDX-License-Identifier: Apache-2.0
// Words of pinned host memory that the GPU of a context can read and write: it counts in some of
// them (credits.hpp) and waits at others until the daemon opens them with a plain store
// (host_calls.hpp). A word is given out again as soon as its last owner lets go. Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace gpuwire::daemon {

struct worker;

// Values only grow, also when another owner takes the word over, so that a late write of the former
// owner is never mistaken for progress, and a late reader of it is never held.
struct counter_word {
  volatile std::uint32_t* host = nullptr;
  CUdeviceptr device = 0;
  std::uint32_t value = 0;  // the last one that was given a meaning

  void open() { __atomic_store_n(host, value, __ATOMIC_RELEASE); }
  bool has_reached(std::uint32_t wanted) const {
    return static_cast<std::int32_t>(__atomic_load_n(host, __ATOMIC_ACQUIRE) - wanted) >= 0;
  }
};

class word_pages {
 public:
  explicit word_pages(worker& w) : worker_(w) {}

  // The calling thread has the context current. Null where the driver gives no such memory.
  std::shared_ptr<counter_word> take(std::uint32_t context);
  void context_gone(std::uint32_t context);

 private:
  struct page;
  std::shared_ptr<page> make_page();

  worker& worker_;
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::vector<std::shared_ptr<page>>> pages_;  // by context
};

}  // namespace gpuwire::daemon
