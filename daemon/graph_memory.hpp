// SPDX-License-Identifier: Apache-2.0
// Host memory that graphs copy from and to. A memory copy in a graph names the program's memory,
// which is read and written at every launch; here it names a shadow: memory of the worker, one byte
// for each byte of the client's address space that is used so, at a fixed distance, so that
// overlapping ranges overlap here too. The client's numbers are keys and are never dereferenced.
// Before a launch the client sends what the graph will read; when the launch is complete, what the
// graph has written is pushed, before anything tells the client that it is complete.
//
// Any thread, unless a member says otherwise.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "daemon/stream_reference.hpp"
#include "wire/handle.hpp"

namespace gpuwire::daemon {

struct worker;

// The rows of one operand of a copy, in the client's memory.
struct host_box {
  std::uint64_t node = 0;  // handle of the copy's node
  bool source = false;
  std::uint64_t address = 0, width = 0, pitch = 0, rows = 0, slice = 0, depth = 0;
};
using host_boxes = std::vector<host_box>;

// As they travel.
std::vector<std::uint64_t> flat(const host_boxes& boxes);

class graph_memory {
 public:
  explicit graph_memory(worker& w) : worker_(w) {}

  // The shadow of a range of the client's; null when it cannot have one.
  std::byte* shadow(std::uint64_t address, std::uint64_t bytes);
  // What a shadow's address stands for; 0: it is none.
  std::uint64_t client_address(std::uint64_t shadow) const;
  // New content of the client's memory. False: the lengths do not fit.
  bool write(std::span<const std::uint64_t> addresses, std::span<const std::uint64_t> lengths,
             std::span<const std::byte> data);

  // The host operands of one copy, and those of all copies in a graph.
  void add_boxes(const CUDA_MEMCPY3D& copy, std::uint64_t node, host_boxes& out) const;
  host_boxes boxes_of(CUgraph graph, wire::handle_id id) const;
  void set_boxes(CUgraphExec exec, host_boxes boxes);
  void replace_boxes(CUgraphExec exec, std::uint64_t node, const host_boxes& boxes);
  void forget(CUgraphExec exec) { set_boxes(exec, {}); }

  // Executor. The executable graph was launched into the stream (or was refused): what it writes is
  // on its way.
  void launched(CUgraphExec exec, std::uint64_t delivery, const stream_reference& s, bool failed);
  bool any() const { return outstanding_count_.load(std::memory_order_acquire) != 0; }
  // Pushes what complete launches have written. Not on threads of the driver.
  void deliver_complete();
  // Pushes what launches that are not complete have written so far, for a host function that runs
  // between.
  void deliver_so_far();
  void context_gone(std::uint32_t context);

 private:
  struct window {
    std::byte* memory = nullptr;
  };
  struct launch {
    std::uint64_t delivery = 0;
    CUevent event = nullptr;
    std::uint32_t context = 0;
    host_boxes written;
  };
  const std::byte* find(std::uint64_t address, std::uint64_t bytes) const;
  void push(std::uint64_t delivery, const host_boxes& boxes);
  void start_thread();

  worker& worker_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, window> windows_;  // by the high bits of the client's addresses
  std::unordered_map<CUgraphExec, host_boxes> boxes_;
  std::list<launch> outstanding_;
  std::atomic<std::size_t> outstanding_count_{0};
  bool started_ = false;
};

}  // namespace gpuwire::daemon
