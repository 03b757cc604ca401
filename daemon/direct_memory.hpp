// SPDX-License-Identifier: Apache-2.0
// Memory of the worker at the addresses of the client's: host memory that kernels reach directly,
// and managed memory. The client's writes arrive as deltas at their place in the order; what the
// GPU wrote goes back before each answer that says work is complete.
//
// Thread-safe. The memory belongs to this object, except managed memory, which is the driver's.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

#include "wire/byte_delta.hpp"
#include "wire/exchange_pace.hpp"

namespace gpuwire::daemon {

struct worker;
struct call_ticket;

class direct_memory {
 public:
  explicit direct_memory(worker& w) : worker_(w) {}

  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

  // Keeps a window of addresses free for map(). If it is not free, `elsewhere` is one that is (or
  // 0).
  bool reserve(std::uint64_t address, std::uint64_t bytes, std::uint64_t& elsewhere);

  // Memory at this address, for the client's own, that kernels of the current context may use.
  // Zeros at first. On a thread that may wait.
  CUresult map(std::uint32_t context, std::uint64_t address, std::uint64_t bytes, unsigned flags);
  // The same for managed memory, which the driver has put there. An allocation (image 0) is made
  // zeros; the contents of an image's variable are sent with the next changes.
  CUresult adopt(std::uint32_t context, std::uint64_t address, std::uint64_t bytes,
                 std::uint64_t image);

  // False if the delta is malformed.
  bool write(std::uint64_t address, std::span<const std::byte> delta);
  // Sends what changed since the last time. Before the answer that says the work is complete.
  void publish();
  // Device work was issued: from then on small ranges are sent without being asked, ever more
  // rarely, for a program that polls them.
  void work_issued();

  // Executor. Nothing of the range is sent any more. unmap() gives the memory back later, when the
  // driver does not use it any more.
  void unmap(const call_ticket& ticket, std::uint64_t address);
  void forget(std::uint64_t address);
  void context_gone(std::uint32_t context);
  // Before the driver takes managed memory back.
  void context_leaves(std::uint32_t context);
  void image_leaves(std::uint64_t image);

 private:
  struct range {
    std::uint64_t bytes = 0;
    std::uint32_t context = 0;
    bool managed = false;
    std::uint64_t image = 0;
    wire::shadow_memory shadow;
  };
  using range_map = std::map<std::uint64_t, range>;

  bool take_pages(std::uint64_t first, std::uint64_t end);
  void give_back_pages(std::uint64_t first, std::uint64_t end);
  bool overlaps(std::uint64_t first, std::uint64_t end) const;
  template <class Which>
  void forget_managed(Which which);
  CUresult register_pages(std::uint64_t address, std::uint64_t bytes, unsigned flags);
  CUresult insert(std::uint64_t address, range r);
  void poll();
  void send_changes(std::uint64_t address, range& r);

  worker& worker_;
  std::mutex mutex_;
  range_map ranges_;
  range_map with_driver_;  // being registered, or unmapped and not taken back yet
  std::uint64_t window_ = 0, window_bytes_ = 0;
  std::atomic<std::size_t> count_{0};
  wire::exchange_pace pace_;
};

}  // namespace gpuwire::daemon
