// SPDX-License-Identifier: Apache-2.0
// Memory of graph allocation nodes. The address is fixed when the node is made and stays the node's
// for its life; what comes and goes with launches is whether the program may use it.
//
// Everything here has a lock of its own, which may be taken under graph_mutex().
#pragma once

#include <cstdint>
#include <memory>

#include "context.hpp"
#include "memory.hpp"

namespace gpuwire::softgpu {

struct graph_memory {
  allocation block;
  bool live = false;      // allocated by a launch and not freed
  bool reserved = false;  // since the first launch, until it is trimmed
  ~graph_memory();
};

// Refuses with CUDA_ERROR_OUT_OF_MEMORY.
std::shared_ptr<graph_memory> make_graph_memory(device& on, unsigned context_id,
                                                std::uint64_t bytes);
// The memory of a node that begins at the address; null when there is none.
std::shared_ptr<graph_memory> graph_memory_at(std::uint64_t address);
bool is_live(const graph_memory& which);
void mark_live(graph_memory& which, bool live);

// For the functions that free memory outside graphs: false when the address is not a node's.
// Refuses with CUDA_ERROR_INVALID_VALUE when no launch has allocated it.
bool free_graph_memory(std::uint64_t address);

// Refuses with CUDA_ERROR_INVALID_VALUE when the address is in a node's memory that no launch has
// allocated: copies and fills outside graphs may not touch it.
void check_graph_memory(std::uint64_t address);

// Of one device, in bytes: as the real driver counts, in units of its chunks.
struct graph_memory_use {
  std::uint64_t used = 0, used_high = 0;
  std::uint64_t reserved = 0, reserved_high = 0;
};
graph_memory_use graph_memory_use_of(int device_ordinal);
// The marks become what is in use now.
void reset_used_high(int device_ordinal);
void reset_reserved_high(int device_ordinal);
// Gives up what is reserved but not live.
void trim_graph_memory(int device_ordinal);

}  // namespace gpuwire::softgpu
