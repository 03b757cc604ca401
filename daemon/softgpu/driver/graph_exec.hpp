// SPDX-License-Identifier: Apache-2.0
// Instantiated graphs. One owns a copy of the graph it was made from, whose nodes are found by the
// nodes they are copies of. Guarded by graph_mutex().
//
// A launch is one operation of its stream. It runs the nodes one after the other, in dependency
// order; what it needs of the instance is copied when it is launched, so that later changes touch
// later launches only.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "graph.hpp"
#include "scheduler.hpp"

namespace gpuwire::softgpu {

struct graph_exec {
  CUgraphExec handle = nullptr;
  cuuint64_t flags = 0;
  std::shared_ptr<context> in;
  std::shared_ptr<graph> from;  // kept for what may be instantiated only once
  std::shared_ptr<graph> copy;
  std::unordered_map<std::uint64_t, graph_node*> by_original;  // id of the original
  fence last_launch;
  ~graph_exec();
};

using exec_table = handle_table<graph_exec, CUgraphExec, handle_kind::graph_exec>;
exec_table& graph_execs();
std::shared_ptr<graph_exec> exec_of(CUgraphExec handle);

struct instantiate_failure {
  CUresult code = CUDA_SUCCESS;
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  CUgraphNode node = nullptr;
};
// Null, and why, when it cannot be.
std::shared_ptr<graph_exec> instantiate_graph(const std::shared_ptr<graph>& from, cuuint64_t flags,
                                              context& in, instantiate_failure& failure);

// The node of the instance that was made from `original`.
graph_node& node_in(graph_exec& which, CUgraphNode original);
// Gives a node of the instance the parameters that `wanted` has; refuses what cannot change.
void update_payload(graph_node& which, node_payload wanted);
// Makes the instance as `wanted` is; false, with the reason, when it cannot.
bool update_exec(graph_exec& which, const graph& wanted, CUgraphExecUpdateResultInfo& why);
// The same for the graph of a child node.
void update_child(graph& which, const graph& wanted);

struct prepared_graph {
  operation what;
  std::vector<std::shared_ptr<scheduler::event_step>> events;
};
// Under the lock; the caller then submits it without.
prepared_graph prepare_graph_launch(graph_exec& which, const std::shared_ptr<stream>& on);

}  // namespace gpuwire::softgpu
