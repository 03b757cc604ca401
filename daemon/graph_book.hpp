// SPDX-License-Identifier: Apache-2.0
// The handles of graphs and nodes. A node belongs to a graph, and a graph that is embedded in a
// node (a child, the body of a condition) to that node; with the outer one the handles of
// everything inside disappear, because the driver's pointers behind them are gone. Any thread.
#pragma once

#include <cuda.h>

#include <mutex>
#include <unordered_map>
#include <vector>

#include "wire/handle.hpp"

namespace gpuwire::daemon {

struct worker;

class graph_book {
 public:
  explicit graph_book(worker& w) : worker_(w) {}

  wire::handle_id graph(CUgraph native);
  wire::handle_id node(CUgraphNode native, wire::handle_id graph);
  // A graph inside a node.
  wire::handle_id embedded(CUgraph native, wire::handle_id node);
  wire::handle_id graph_of(wire::handle_id node) const;

  // Before the driver destroys it, or after the driver has.
  void graph_gone(wire::handle_id graph);
  void node_gone(wire::handle_id node);

 private:
  void forget_inside(wire::handle_id graph);
  std::vector<wire::handle_id> take_embedded(wire::handle_id node);

  worker& worker_;
  std::mutex mutex_;
  std::unordered_map<wire::handle_id, std::vector<wire::handle_id>> embedded_;  // by node
};

}  // namespace gpuwire::daemon
