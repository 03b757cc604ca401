// SPDX-License-Identifier: Apache-2.0
#include "graph_exec.hpp"

#include <algorithm>
#include <cstring>

#include "graph_memory.hpp"

namespace gpuwire::softgpu {
namespace {

void index(const graph& copy, std::unordered_map<std::uint64_t, graph_node*>& by_original) {
  for (const auto& node : copy.nodes) {
    by_original[node->copied_from] = node.get();
    for_each_inner_graph(*node, [&](const graph& inner) { index(inner, by_original); });
  }
}

// A graph with such nodes may have one instance at a time.
bool is_exclusive(const graph& which) {
  return std::any_of(which.nodes.begin(), which.nodes.end(), [](const auto& node) {
    const auto type = node->type();
    bool found = type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
                 type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    for_each_inner_graph(*node, [&](const graph& inner) { found = found || is_exclusive(inner); });
    return found;
  });
}

bool may_be_in_body(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return true;
    default:
      return false;
  }
}

const graph_node* node_in_cycle(const graph& which) {
  const auto order = in_dependency_order(which);
  for (const auto& node : which.nodes) {
    if (std::find(order.begin(), order.end(), node.get()) == order.end()) return node.get();
    if (order.size() == which.nodes.size()) break;
  }
  return nullptr;
}

// Fills in the failure when the graph cannot be run.
bool is_sound(const graph& which, bool in_body, instantiate_failure& failure) {
  if (const auto* node = node_in_cycle(which)) {
    failure = {CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, node->handle};
    return false;
  }
  for (const auto& one : which.conditions) {
    if (one->used) continue;
    failure = {CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED, nullptr};
    return false;
  }
  for (const auto& node : which.nodes) {
    if (in_body && !may_be_in_body(node->type())) {
      failure = {CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED,
                 node->handle};
      return false;
    }
    const bool body = in_body || node->type() == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    bool fine = true;
    for_each_inner_graph(
        *node, [&](const graph& inner) { fine = fine && is_sound(inner, body, failure); });
    if (!fine) return false;
  }
  return true;
}

bool is_linear(const CUDA_MEMCPY3D& copy) {
  return copy.Height <= 1 && copy.Depth <= 1;
}

bool same_operands(const CUDA_MEMCPY3D& one, const CUDA_MEMCPY3D& other) {
  return one.srcMemoryType == other.srcMemoryType && one.dstMemoryType == other.dstMemoryType;
}

void update(kernel_payload& which, kernel_payload& wanted) {
  require(which.launch.which->owner == wanted.launch.which->owner);
  // The attributes stay: they are set by a function of their own.
  wanted.launch.shape.cooperative = which.launch.shape.cooperative;
  which.launch = std::move(wanted.launch);
}
void update(memcpy_payload& which, memcpy_payload& wanted) {
  require(which.in == wanted.in && same_operands(which.parameters, wanted.parameters));
  require(is_linear(which.parameters) && is_linear(wanted.parameters) &&
          wanted.parameters.WidthInBytes > 0);
  which = wanted;
}
void update(memset_payload& which, memset_payload& wanted) {
  require(which.in == wanted.in && which.parameters.height <= 1 && wanted.parameters.height <= 1);
  require(wanted.parameters.width > 0);
  which = wanted;
}
void update(child_payload& which, child_payload& wanted) {
  update_child(*which.body, *wanted.body);
}
void update(batch_payload& which, batch_payload& wanted) {
  require(which.in == wanted.in && which.operations.size() == wanted.operations.size());
  for (std::size_t at = 0; at < wanted.operations.size(); ++at)
    require(which.operations[at].operation == wanted.operations[at].operation);
  which = wanted;
}
void update(alloc_payload& which, alloc_payload& wanted) {
  require(which.memory == wanted.memory);
}
void update(free_payload& which, free_payload& wanted) {
  require(which.address == wanted.address);
}
void update(conditional_payload& which, conditional_payload& wanted) {
  require(which.type == wanted.type && which.bodies.size() == wanted.bodies.size());
  for (std::size_t at = 0; at < which.bodies.size(); ++at)
    update_child(*which.bodies[at], *wanted.bodies[at]);
}
template <typename Payload>
void update(Payload& which, Payload& wanted) {
  which = wanted;
}

struct update_failure {
  CUgraphExecUpdateResult result;
  CUgraphNode node;
  CUgraphNode from;
};

using node_list = std::vector<graph_node*>;

std::size_t position_in(const node_list& all, const graph_node& node) {
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), &node) - all.begin());
}

// Nodes correspond by their dependency order, edges by the order in which they were added.
void check_topology(const node_list& all, const node_list& others) {
  if (all.size() != others.size())
    throw update_failure{CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr, nullptr};
  for (std::size_t at = 0; at < others.size(); ++at) {
    const auto& mine = *all[at];
    const auto& other = *others[at];
    if (mine.type() != other.type())
      throw update_failure{CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, other.handle, nullptr};
    if (mine.dependencies.size() != other.dependencies.size())
      throw update_failure{CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, other.handle, nullptr};
    for (std::size_t edge = 0; edge < mine.dependencies.size(); ++edge) {
      const auto& from = *other.dependencies[edge].other;
      if (position_in(all, *mine.dependencies[edge].other) != position_in(others, from))
        throw update_failure{CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, other.handle,
                             from.handle};
    }
  }
}

CUgraphExecUpdateResult failure_of(const graph_node& node, const graph_node& wanted) {
  const auto* mine = std::get_if<kernel_payload>(&node.payload);
  const auto* other = std::get_if<kernel_payload>(&wanted.payload);
  const bool function = mine != nullptr && other != nullptr &&
                        mine->launch.which->owner != other->launch.which->owner;
  return function ? CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
                  : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

template <typename Parameters>
bool same_bytes(const Parameters& one, const Parameters& other) {
  return std::memcmp(&one, &other, sizeof one) == 0;
}

// A copy or fill of several rows may be there, as long as it stays as it is; a kernel takes over
// all of its attributes.
void update_whole(graph_node& node, const graph_node& wanted) {
  if (auto* mine = std::get_if<kernel_payload>(&node.payload)) {
    const auto& other = std::get<kernel_payload>(wanted.payload);
    require(mine->launch.which->owner == other.launch.which->owner);
    *mine = other;
  } else if (auto* copy = std::get_if<memcpy_payload>(&node.payload)) {
    const auto& other = std::get<memcpy_payload>(wanted.payload);
    if (!same_bytes(copy->parameters, other.parameters)) update_payload(node, other);
  } else if (auto* fill = std::get_if<memset_payload>(&node.payload)) {
    const auto& other = std::get<memset_payload>(wanted.payload);
    if (!same_bytes(fill->parameters, other.parameters)) update_payload(node, other);
  } else {
    update_payload(node, wanted.payload);
  }
}

void update_graph(graph& which, const graph& wanted) {
  const auto all = in_dependency_order(which);
  const auto others = in_dependency_order(wanted);
  check_topology(all, others);
  for (std::size_t at = 0; at < others.size(); ++at) {
    try {
      update_whole(*all[at], *others[at]);
    } catch (const refusal&) {
      throw update_failure{failure_of(*all[at], *others[at]), others[at]->handle, nullptr};
    }
  }
}

}  // namespace

exec_table& graph_execs() {
  static auto* table = new exec_table;
  return *table;
}

graph_exec::~graph_exec() {
  if (from) --from->exclusive_instances;
}

std::shared_ptr<graph_exec> exec_of(CUgraphExec handle) {
  auto found = graph_execs().find(handle);
  require(found != nullptr);
  return found;
}

std::shared_ptr<graph_exec> instantiate_graph(const std::shared_ptr<graph>& from, cuuint64_t flags,
                                              context& in, instantiate_failure& failure) {
  if (!is_sound(*from, false, failure)) return nullptr;
  const bool exclusive = is_exclusive(*from);
  if (exclusive && from->exclusive_instances != 0) {
    failure = {CUDA_ERROR_NOT_SUPPORTED, CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
    return nullptr;
  }
  auto made = std::make_shared<graph_exec>();
  made->flags = flags;
  made->in = in.shared_from_this();
  made->copy = copy_graph(*from, copy_purpose::instantiation);
  index(*made->copy, made->by_original);
  if (exclusive) {
    made->from = from;
    ++from->exclusive_instances;
  }
  made->handle = graph_execs().mint();
  graph_execs().insert(made->handle, made);
  return made;
}

graph_node& node_in(graph_exec& which, CUgraphNode original) {
  auto found = which.by_original.find(node_of(original)->id);
  require(found != which.by_original.end());
  return *found->second;
}

void update_payload(graph_node& which, node_payload wanted) {
  require(which.payload.index() == wanted.index());
  std::visit(
      [&](auto& payload) {
        using payload_type = std::decay_t<decltype(payload)>;
        update(payload, std::get<payload_type>(wanted));
      },
      which.payload);
}

void update_child(graph& which, const graph& wanted) {
  try {
    update_graph(which, wanted);
  } catch (const update_failure&) {
    refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  }
}

bool update_exec(graph_exec& which, const graph& wanted, CUgraphExecUpdateResultInfo& why) {
  try {
    // On a copy first: an update that fails changes nothing.
    auto changed = copy_graph(*which.copy, copy_purpose::instantiation);
    update_graph(*changed, wanted);
    update_graph(*which.copy, wanted);
    why = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
    return true;
  } catch (const update_failure& failed) {
    why = {failed.result, failed.node, failed.from};
    return false;
  }
}

}  // namespace gpuwire::softgpu
