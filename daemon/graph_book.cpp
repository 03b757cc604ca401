// SPDX-License-Identifier: Apache-2.0
#include "daemon/graph_book.hpp"

#include <algorithm>

#include "daemon/worker.hpp"

namespace gpuwire::daemon {

wire::handle_id graph_book::graph(CUgraph native) {
  return worker_.handles(handle_kind::graph).mint(native);
}

wire::handle_id graph_book::node(CUgraphNode native, wire::handle_id graph) {
  return worker_.handles(handle_kind::graph_node).mint(native, {0, graph});
}

wire::handle_id graph_book::embedded(CUgraph native, wire::handle_id node) {
  const auto id = graph(native);
  if (id == 0) return 0;
  std::lock_guard lock(mutex_);
  auto& inside = embedded_[node];
  if (std::find(inside.begin(), inside.end(), id) == inside.end()) inside.push_back(id);
  return id;
}

wire::handle_id graph_book::graph_of(wire::handle_id node) const {
  return worker_.handles(handle_kind::graph_node).parent_of(node);
}

void graph_book::graph_gone(wire::handle_id graph) {
  worker_.handles(handle_kind::graph).remove(graph);
  forget_inside(graph);
}

void graph_book::node_gone(wire::handle_id node) {
  worker_.handles(handle_kind::graph_node).remove(node);
  for (const auto graph : take_embedded(node)) graph_gone(graph);
}

// Graphs nest as deeply as a program likes, so the work is kept in a list and not on the stack.
void graph_book::forget_inside(wire::handle_id graph) {
  std::vector<wire::handle_id> graphs{graph};
  while (!graphs.empty()) {
    const auto next = graphs.back();
    graphs.pop_back();
    for (const auto node : worker_.handles(handle_kind::graph_node).remove_family(next)) {
      for (const auto inner : take_embedded(node)) {
        worker_.handles(handle_kind::graph).remove(inner);
        graphs.push_back(inner);
      }
    }
  }
}

std::vector<wire::handle_id> graph_book::take_embedded(wire::handle_id node) {
  std::lock_guard lock(mutex_);
  const auto found = embedded_.find(node);
  if (found == embedded_.end()) return {};
  auto graphs = std::move(found->second);
  embedded_.erase(found);
  return graphs;
}

}  // namespace gpuwire::daemon
