// SPDX-License-Identifier: Apache-2.0
// Graphs as programs build them: nodes, their parameters and the edges between them.
//
// All of it, and the state of stream captures, is guarded by graph_mutex(). CUDA does not promise
// that much; here it keeps any use, however careless, from doing harm. The lock is taken before the
// scheduler's, never after it, and never held while something waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "context.hpp"
#include "guard.hpp"
#include "handles.hpp"
#include "launch.hpp"

namespace gpuwire::softgpu {

constexpr unsigned conditional_bodies_max = 65536;

struct graph;
struct graph_node;
struct graph_memory;
struct user_object;

std::mutex& graph_mutex();

// `initialised` with the lock.
template <typename Body>
CUresult with_graphs(Body&& body) noexcept {
  return initialised([&] {
    std::lock_guard lock(graph_mutex());
    return body();
  });
}

// ---- what nodes do
// -------------------------------------------------------------------------------------------------

struct kernel_payload {
  kernel_launch launch;
  std::vector<CUlaunchAttribute> attributes;
};
struct memcpy_payload {
  CUDA_MEMCPY3D parameters{};
  std::shared_ptr<context> in;
};
struct memset_payload {
  CUDA_MEMSET_NODE_PARAMS parameters{};
  std::shared_ptr<context> in;
};
struct host_payload {
  CUDA_HOST_NODE_PARAMS parameters{};
};
struct child_payload {
  std::shared_ptr<graph> body;
};
struct empty_payload {};
struct event_wait_payload {
  std::shared_ptr<event> which;
};
struct event_record_payload {
  std::shared_ptr<event> which;
};
struct batch_payload {
  std::shared_ptr<context> in;
  std::vector<CUstreamBatchMemOpParams> operations;
  unsigned flags = 0;
};
struct alloc_payload {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  std::vector<CUmemAccessDesc> access;
  std::shared_ptr<graph_memory> memory;
};
struct free_payload {
  CUdeviceptr address = 0;
};
// The variable behind a CUgraphConditionalHandle. Kernels write it, so it is an atomic of its own.
struct condition {
  CUgraphConditionalHandle handle = 0;
  std::shared_ptr<context> in;
  unsigned default_value = 0;
  unsigned flags = 0;
  bool used = false;
  std::atomic<unsigned> value{0};
};
struct conditional_payload {
  std::shared_ptr<condition> decides;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::shared_ptr<graph>> bodies;
  std::vector<CUgraph> handles;  // what phGraph_out points to
};

using node_payload =
    std::variant<kernel_payload, memcpy_payload, memset_payload, host_payload, child_payload,
                 empty_payload, event_wait_payload, event_record_payload, batch_payload,
                 alloc_payload, free_payload, conditional_payload>;
CUgraphNodeType type_of(const node_payload& payload);
// Whether kernel nodes have such an attribute; launches have more.
bool is_node_attribute(CUlaunchAttributeID id);

// ---- nodes and graphs
// ---------------------------------------------------------------------------------------------

struct graph_edge {
  graph_node* other = nullptr;
  CUgraphEdgeData data{};
};

struct graph_node {
  CUgraphNode handle = nullptr;
  std::uint64_t id = 0;           // never given out twice
  std::uint64_t copied_from = 0;  // the id of the node that this is a copy of
  graph* in = nullptr;
  node_payload payload;
  bool enabled = true;                   // in instantiated graphs
  std::vector<graph_edge> dependencies;  // in the order in which they were added, as are dependents
  std::vector<graph_edge> dependents;
  std::vector<void*> argument_pointers;  // what the getter of a kernel node points to

  CUgraphNodeType type() const { return type_of(payload); }
};

struct graph : std::enable_shared_from_this<graph> {
  CUgraph handle = nullptr;
  std::uint64_t copied_from = 0;  // the id of the graph that this is a copy of
  std::uint64_t id = 0;
  bool is_inner = false;             // of a child or conditional node: it cannot be destroyed
  unsigned captures = 0;             // that add to it
  unsigned exclusive_instances = 0;  // of a graph that may have one at most
  std::vector<std::shared_ptr<graph_node>> nodes;  // in order of creation
  std::vector<std::shared_ptr<condition>> conditions;
  std::map<std::shared_ptr<user_object>, unsigned> objects;
  ~graph();
};

using graph_table = handle_table<graph, CUgraph, handle_kind::graph>;
using node_table = handle_table<graph_node, CUgraphNode, handle_kind::graph_node>;
graph_table& graphs();
node_table& graph_nodes();

// These refuse with CUDA_ERROR_INVALID_VALUE, as the driver does for null.
std::shared_ptr<graph> graph_of(CUgraph handle);
std::shared_ptr<graph_node> node_of(CUgraphNode handle);
template <typename Payload>
Payload& payload_of(graph_node& which) {
  auto* found = std::get_if<Payload>(&which.payload);
  require(found != nullptr);
  return *found;
}

// With a handle of its own, in the table.
std::shared_ptr<graph> make_graph();
// A copy of nodes, edges and user objects. One for an instantiated graph has no handles: nothing of
// it is in the tables. Refuses what must not be cloned when `for_clone`.
enum class copy_purpose { clone, child, instantiation, move };
std::shared_ptr<graph> copy_graph(const graph& original, copy_purpose purpose);
// Makes the handles of a graph, of its nodes and of the graphs inside them invalid.
void forget_graph(graph& which);

// The edges of an argument list: nodes of `in`, none twice; refuses otherwise.
std::vector<graph_edge> edges_of(const graph& in, const CUgraphNode* nodes,
                                 const CUgraphEdgeData* data, std::size_t count);
std::shared_ptr<graph_node> add_node(graph& to, node_payload payload,
                                     const std::vector<graph_edge>& dependencies);
void remove_node(graph_node& which);
void add_edge(graph_node& from, graph_node& to, const CUgraphEdgeData& data);
// False when there is no such edge.
bool remove_edge(graph_node& from, graph_node& to);
// Such a graph keeps its nodes and edges, and is not copied.
bool has_memory_nodes(const graph& which);
// Every node after all it depends on, else in order of creation. Nodes that are in a cycle, or
// depend on one, are missing.
std::vector<graph_node*> in_dependency_order(const graph& which);
bool has_edge_data(const CUgraphEdgeData& data);

// A payload as a copy of a graph needs it: graphs inside are copied too.
template <typename Visit>
void for_each_inner_graph(const graph_node& which, Visit visit) {
  if (const auto* child = std::get_if<child_payload>(&which.payload)) visit(*child->body);
  if (const auto* choice = std::get_if<conditional_payload>(&which.payload)) {
    for (const auto& body : choice->bodies) visit(*body);
  }
}

}  // namespace gpuwire::softgpu
