// SPDX-License-Identifier: Apache-2.0
#include "graph_memory.hpp"

#include <map>

#include "graph.hpp"

namespace gpuwire::softgpu {
namespace {

// By address; graph_mutex().
std::map<std::uint64_t, std::weak_ptr<graph_memory>>& all_memory() {
  static auto* map = new std::map<std::uint64_t, std::weak_ptr<graph_memory>>;
  return *map;
}

}  // namespace

graph_memory::~graph_memory() {
  all_memory().erase(block.base);
  memory_table::instance().remove_exactly(block);
}

std::shared_ptr<graph_memory> make_graph_memory(device& on, unsigned context_id,
                                                std::uint64_t bytes) {
  allocation_request request;
  request.bytes = bytes;
  request.context_id = context_id;
  auto block = memory_table::instance().allocate(on, request);
  require(block.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
  auto made = std::make_shared<graph_memory>();
  made->block = *block;
  all_memory()[block->base] = made;
  return made;
}

std::shared_ptr<graph_memory> graph_memory_at(std::uint64_t address) {
  auto found = all_memory().find(address);
  return found == all_memory().end() ? nullptr : found->second.lock();
}

void mark_live(graph_memory& which, bool live) {
  which.live = live;
}

}  // namespace gpuwire::softgpu
