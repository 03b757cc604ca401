// SPDX-License-Identifier: Apache-2.0
// Host memory between socket and GPU: blocks of powers of two, cut from slabs that the driver is
// asked to pin. A slab is ordinary memory first: when its context is destroyed it is no longer
// pinned, but never gone, and is pinned again with the next one. Bounded; any thread. Knows no
// driver: pinning is a function it was given.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace gpuwire::daemon {

struct staging_block {
  std::byte* data = nullptr;
  std::uint32_t order = 0;  // block_bytes_min << order
  explicit operator bool() const { return data != nullptr; }
};

class staging_pool {
 public:
  // Pins the memory in the calling thread's context, if it can. Called without the pool's lock
  // held, once per slab and context.
  using pin_function =
      std::function<void(std::byte* data, std::size_t bytes, std::uint32_t context)>;

  struct settings {
    std::size_t block_bytes_min = 0;
    std::size_t slab_bytes = 0;  // also the largest block
    std::size_t bytes_max = 0;
  };
  staging_pool(settings s, pin_function pin);
  ~staging_pool();
  staging_pool(const staging_pool&) = delete;
  staging_pool& operator=(const staging_pool&) = delete;

  // The calling thread has `context` current. No block: the bound is reached (or more was asked
  // than a slab holds).
  staging_block try_acquire(std::size_t bytes, std::uint32_t context);
  // Waits until a block is given back. Never on the executor.
  staging_block acquire(std::size_t bytes, std::uint32_t context);
  void release(staging_block block);

  // A context is gone and with it the pinning it gave.
  void context_gone(std::uint32_t context);

  std::size_t bytes_used() const;
  std::size_t bytes_allocated() const;

 private:
  struct slab {
    std::byte* data = nullptr;
    std::uint32_t pinned_by = 0;  // context index, 0 none
  };
  std::uint32_t order_for(std::size_t bytes) const;
  std::size_t bytes_of(std::uint32_t order) const { return settings_.block_bytes_min << order; }
  staging_block take(std::uint32_t order);
  bool grow();
  void pin_slab_of(const std::byte* data, std::uint32_t context);
  slab* slab_of(const std::byte* data);

  const settings settings_;
  const pin_function pin_;
  mutable std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<slab> slabs_;
  std::vector<std::vector<std::byte*>> free_;  // by order
  std::size_t used_ = 0;
};

}  // namespace gpuwire::daemon
