// SPDX-License-Identifier: Apache-2.0
// Memory of graph allocation nodes. The address is fixed when the node is made and stays the node's
// for its life; what comes and goes with launches is whether the program may use it.
#pragma once

#include <cstdint>
#include <memory>

#include "context.hpp"
#include "memory.hpp"

namespace gpuwire::softgpu {

struct graph_memory {
  allocation block;
  bool live = false;  // allocated by a launch and not freed; graph_mutex()
  ~graph_memory();
};

// Refuses with CUDA_ERROR_OUT_OF_MEMORY.
std::shared_ptr<graph_memory> make_graph_memory(device& on, unsigned context_id,
                                                std::uint64_t bytes);
// The memory of a node that begins at the address; null when there is none.
std::shared_ptr<graph_memory> graph_memory_at(std::uint64_t address);
void mark_live(graph_memory& which, bool live);

}  // namespace gpuwire::softgpu
