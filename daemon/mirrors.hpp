// SPDX-License-Identifier: Apache-2.0
// Pinned memory of the daemon that stands for a range of pinned memory of the client. Asynchronous
// copies of such a range are driver copies from or to the mirror at their place in the stream; what
// must travel between mirror and range travels beside them (deliveries.hpp, uploads.hpp).
//
// A mirror lies at the client's own address when that is free here, so that an address which the
// program gives to a kernel can be made to mean something. It is not mapped for the GPU until
// map_for_device() is called: a missed address faults instead of reading stale data.
//
// `range` is the client's number of the range, unique in its process. A mirror lives until
// remove(), whose caller has waited for the copies that use it (worker::settle_range); whoever
// holds the pointer keeps the memory. Any thread, but create(), map_for_device() and remove() pin
// memory, which takes time: never on the executor.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace gpuwire::daemon {

struct worker;

class mirror {
 public:
  ~mirror();
  mirror(const mirror&) = delete;
  mirror& operator=(const mirror&) = delete;

  std::uint64_t range() const { return range_; }
  std::uint64_t client_address() const { return client_address_; }
  std::uint64_t bytes() const { return bytes_; }
  std::byte* memory() const { return memory_; }  // of the range's first byte
  bool at_client_address() const {
    return reinterpret_cast<std::uint64_t>(memory_) == client_address_;
  }
  bool contains(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }

 private:
  friend class mirrors;
  mirror() = default;
  bool map(std::uint64_t client_address, std::uint64_t bytes);

  std::uint64_t range_ = 0, client_address_ = 0, bytes_ = 0;
  std::byte* memory_ = nullptr;
  void* pages_ = nullptr;  // whole pages around it
  std::size_t pages_bytes_ = 0;
  // Guarded by the mutex of `mirrors`.
  std::uint32_t pinned_by_ = 0;  // context index, 0: the pinning went with its context
  CUdeviceptr device_ = 0;       // 0: the GPU cannot reach it
};

class mirrors {
 public:
  explicit mirrors(worker& w) : worker_(w) {}

  // The calling thread has the context current. OUT_OF_MEMORY beyond the budget or when the driver
  // does not pin it: the client then copies without a mirror.
  CUresult create(std::uint64_t range, std::uint64_t client_address, std::uint64_t bytes,
                  std::uint32_t context);
  // Null: there is none. Also on the executor.
  std::shared_ptr<mirror> find(std::uint64_t range) const;
  // The address under which kernels reach the mirror. No copy of it is under way.
  CUresult map_for_device(const std::shared_ptr<mirror>& m, std::uint32_t context,
                          CUdeviceptr& device);
  void remove(std::uint64_t range);

  // A context is gone and with it the pinning that it gave.
  void context_gone(std::uint32_t context);

 private:
  worker& worker_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<mirror>> by_range_;
  std::uint64_t bytes_ = 0;
};

}  // namespace gpuwire::daemon
