// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "graph_memory.hpp"
#include "user_object.hpp"

namespace gpuwire::softgpu {
namespace {

std::uint64_t next_id() {
  static std::uint64_t last = 0;  // under graph_mutex()
  return ++last;
}

bool valid_edge_data(const CUgraphEdgeData& data, const graph_node& from) {
  static constexpr unsigned char zero[sizeof data.reserved] = {};
  if (data.to_port != 0 || std::memcmp(data.reserved, zero, sizeof zero) != 0) return false;
  if (data.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) return false;
  const bool programmatic = data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  if (data.from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) return false;
  if (programmatic != (data.from_port != CU_GRAPH_KERNEL_NODE_PORT_DEFAULT)) return false;
  return !programmatic || from.type() == CU_GRAPH_NODE_TYPE_KERNEL;
}

bool same_data(const CUgraphEdgeData& one, const CUgraphEdgeData& other) {
  return std::memcmp(&one, &other, sizeof one) == 0;
}

std::vector<graph_edge>::iterator find_edge(std::vector<graph_edge>& list, const graph_node& to) {
  return std::find_if(list.begin(), list.end(),
                      [&](const graph_edge& one) { return one.other == &to; });
}

bool with_handles(copy_purpose purpose) {
  return purpose != copy_purpose::instantiation;
}

node_payload copy_payload(const graph_node& original, copy_purpose purpose) {
  if (const auto* child = std::get_if<child_payload>(&original.payload))
    return child_payload{copy_graph(*child->body, purpose)};
  if (const auto* choice = std::get_if<conditional_payload>(&original.payload)) {
    require(purpose == copy_purpose::instantiation, CUDA_ERROR_NOT_SUPPORTED);
    conditional_payload made{choice->decides, choice->type, {}, {}};
    for (const auto& body : choice->bodies) made.bodies.push_back(copy_graph(*body, purpose));
    return made;
  }
  const bool memory = std::holds_alternative<alloc_payload>(original.payload) ||
                      std::holds_alternative<free_payload>(original.payload);
  require(!memory || purpose == copy_purpose::instantiation || purpose == copy_purpose::move,
          CUDA_ERROR_NOT_SUPPORTED);
  return original.payload;
}

std::shared_ptr<graph_node> new_node(graph& to, node_payload payload, bool with_handle) {
  auto made = std::make_shared<graph_node>();
  made->id = next_id();
  made->in = &to;
  made->payload = std::move(payload);
  for_each_inner_graph(*made, [&](graph& inner) { inner.is_inner = true; });
  if (with_handle) {
    made->handle = graph_nodes().mint();
    graph_nodes().insert(made->handle, made);
  }
  to.nodes.push_back(made);
  return made;
}

}  // namespace

std::mutex& graph_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

graph_table& graphs() {
  static auto* table = new graph_table;
  return *table;
}

node_table& graph_nodes() {
  static auto* table = new node_table;
  return *table;
}

CUgraphNodeType type_of(const node_payload& payload) {
  static constexpr CUgraphNodeType types[] = {
      CU_GRAPH_NODE_TYPE_KERNEL,       CU_GRAPH_NODE_TYPE_MEMCPY,
      CU_GRAPH_NODE_TYPE_MEMSET,       CU_GRAPH_NODE_TYPE_HOST,
      CU_GRAPH_NODE_TYPE_GRAPH,        CU_GRAPH_NODE_TYPE_EMPTY,
      CU_GRAPH_NODE_TYPE_WAIT_EVENT,   CU_GRAPH_NODE_TYPE_EVENT_RECORD,
      CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
      CU_GRAPH_NODE_TYPE_MEM_FREE,     CU_GRAPH_NODE_TYPE_CONDITIONAL};
  static_assert(std::size(types) == std::variant_size_v<node_payload>);
  return types[payload.index()];
}

std::shared_ptr<graph> graph_of(CUgraph handle) {
  auto found = graphs().find(handle);
  require(found != nullptr);
  return found;
}

std::shared_ptr<graph_node> node_of(CUgraphNode handle) {
  auto found = graph_nodes().find(handle);
  require(found != nullptr);
  return found;
}

graph::~graph() {
  for (const auto& [object, count] : objects) release(*object, count);
}

std::shared_ptr<graph> make_graph() {
  auto made = std::make_shared<graph>();
  made->id = next_id();
  made->handle = graphs().mint();
  graphs().insert(made->handle, made);
  return made;
}

std::shared_ptr<graph> copy_graph(const graph& original, copy_purpose purpose) {
  auto made = std::make_shared<graph>();
  made->id = next_id();
  made->copied_from = original.id;
  std::unordered_map<const graph_node*, graph_node*> copies;
  for (const auto& node : original.nodes) {
    auto copy = new_node(*made, copy_payload(*node, purpose), with_handles(purpose));
    copy->copied_from = node->id;
    copy->enabled = node->enabled;
    copies[node.get()] = copy.get();
  }
  for (const auto& node : original.nodes) {
    auto& copy = *copies[node.get()];
    for (auto edge : node->dependencies)
      copy.dependencies.push_back({copies[edge.other], edge.data});
    for (auto edge : node->dependents) copy.dependents.push_back({copies[edge.other], edge.data});
  }
  for (const auto& [object, count] : original.objects) {
    retain(*object, count);
    made->objects[object] = count;
  }
  if (with_handles(purpose)) {
    made->handle = graphs().mint();
    graphs().insert(made->handle, made);
  }
  return made;
}

void forget_graph(graph& which) {
  for (const auto& node : which.nodes) {
    graph_nodes().remove(node->handle);
    for_each_inner_graph(*node, [](graph& inner) { forget_graph(inner); });
  }
  graphs().remove(which.handle);
}

std::vector<graph_edge> edges_of(const graph& in, const CUgraphNode* nodes,
                                 const CUgraphEdgeData* data, std::size_t count) {
  require(count == 0 || nodes != nullptr);
  require(count <= in.nodes.size());
  std::vector<graph_edge> made;
  for (std::size_t at = 0; at < count; ++at) {
    auto node = node_of(nodes[at]);
    require(node->in == &in && find_edge(made, *node) == made.end());
    graph_edge edge{node.get(), data == nullptr ? CUgraphEdgeData{} : data[at]};
    require(valid_edge_data(edge.data, *node));
    made.push_back(edge);
  }
  return made;
}

std::shared_ptr<graph_node> add_node(graph& to, node_payload payload,
                                     const std::vector<graph_edge>& dependencies) {
  auto made = new_node(to, std::move(payload), true);
  for (const auto& edge : dependencies) {
    made->dependencies.push_back(edge);
    edge.other->dependents.push_back({made.get(), edge.data});
  }
  return made;
}

void remove_node(graph_node& which) {
  for (const auto& edge : which.dependencies) {
    auto& list = edge.other->dependents;
    list.erase(find_edge(list, which));
  }
  for (const auto& edge : which.dependents) {
    auto& list = edge.other->dependencies;
    list.erase(find_edge(list, which));
  }
  for_each_inner_graph(which, [](graph& inner) { forget_graph(inner); });
  if (auto* choice = std::get_if<conditional_payload>(&which.payload))
    choice->decides->used = false;
  graph_nodes().remove(which.handle);
  auto& nodes = which.in->nodes;
  nodes.erase(std::find_if(nodes.begin(), nodes.end(),
                           [&](const auto& one) { return one.get() == &which; }));
}

void add_edge(graph_node& from, graph_node& to, const CUgraphEdgeData& data) {
  require(&from != &to && from.in == to.in && valid_edge_data(data, from));
  require(find_edge(to.dependencies, from) == to.dependencies.end());
  to.dependencies.push_back({&from, data});
  from.dependents.push_back({&to, data});
}

bool remove_edge(graph_node& from, graph_node& to) {
  auto there = find_edge(to.dependencies, from);
  if (there == to.dependencies.end()) return false;
  to.dependencies.erase(there);
  from.dependents.erase(find_edge(from.dependents, to));
  return true;
}

std::vector<graph_node*> in_dependency_order(const graph& which) {
  std::unordered_map<graph_node*, std::size_t> missing;
  std::vector<graph_node*> order;
  for (const auto& node : which.nodes) {
    missing[node.get()] = node->dependencies.size();
    if (node->dependencies.empty()) order.push_back(node.get());
  }
  for (std::size_t at = 0; at < order.size(); ++at) {
    for (const auto& edge : order[at]->dependents) {
      if (--missing[edge.other] == 0) order.push_back(edge.other);
    }
  }
  return order;
}

bool has_memory_nodes(const graph& which) {
  return std::any_of(which.nodes.begin(), which.nodes.end(), [](const auto& node) {
    return node->type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
           node->type() == CU_GRAPH_NODE_TYPE_MEM_FREE;
  });
}

bool has_edge_data(const CUgraphEdgeData& data) {
  return !same_data(data, CUgraphEdgeData{});
}

}  // namespace gpuwire::softgpu
