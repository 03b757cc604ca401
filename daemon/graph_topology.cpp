// SPDX-License-Identifier: Apache-2.0
// Edges, clones, updates of executable graphs, and the driver's own picture of a graph.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "daemon/call_context.hpp"
#include "daemon/descriptor.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/graph_edges.hpp"
#include "daemon/graph_walk.hpp"

namespace gpuwire::daemon::custom {
namespace {

enum class edges_of : std::uint8_t { graph = 0, into_node = 1, out_of_node = 2 };

// One of three driver functions, in its newer or older form; the newer one is called without a
// place for annotations when the client has none, so that the driver itself says that the answer
// would lose something.
struct edge_question {
  const driver_table& d;
  edges_of of;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;

  CUresult ask(CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
               std::size_t* count) const {
    switch (of) {
      case edges_of::graph:
        if (d.cuGraphGetEdges_v2) return d.cuGraphGetEdges_v2(graph, from, to, data, count);
        if (data == nullptr && d.cuGraphGetEdges) return d.cuGraphGetEdges(graph, from, to, count);
        break;
      case edges_of::into_node:
        if (d.cuGraphNodeGetDependencies_v2)
          return d.cuGraphNodeGetDependencies_v2(node, from, data, count);
        if (data == nullptr && d.cuGraphNodeGetDependencies)
          return d.cuGraphNodeGetDependencies(node, from, count);
        break;
      case edges_of::out_of_node:
        if (d.cuGraphNodeGetDependentNodes_v2)
          return d.cuGraphNodeGetDependentNodes_v2(node, to, data, count);
        if (data == nullptr && d.cuGraphNodeGetDependentNodes)
          return d.cuGraphNodeGetDependentNodes(node, to, count);
        break;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
  }
};

}  // namespace

outcome graph_edges(call_context& c, const msg::graph_edges::request& q) {
  using call = msg::graph_edges;
  auto& w = c.owner();
  if (q.of > 2) return c.malformed();
  edge_question question{c.driver(), static_cast<edges_of>(q.of)};
  const bool whole = question.of == edges_of::graph;
  if (whole)
    question.graph = c.native<handle_kind::graph>(q.handle);
  else
    question.node = c.native<handle_kind::graph_node>(q.handle);
  call::reply r;
  if (c.failed()) return c.finish<call>(c.failure(), r);
  const auto graph = whole ? q.handle : w.graphs.graph_of(q.handle);
  std::size_t count = 0;
  auto result = question.ask(nullptr, nullptr, nullptr, &count);
  std::vector<CUgraphNode> from, to;
  std::vector<CUgraphEdgeData> data;
  if (result == CUDA_SUCCESS && q.lists_wanted && count != 0) {
    if (question.of != edges_of::out_of_node) from.resize(count);
    if (question.of != edges_of::into_node) to.resize(count);
    if (q.data_wanted) data.resize(count);
    result = question.ask(from.data(), to.data(), q.data_wanted ? data.data() : nullptr, &count);
  }
  r.count = count;
  std::vector<std::uint64_t> from_ids, to_ids;
  std::vector<std::uint8_t> bytes;
  if (result == CUDA_SUCCESS) {
    for (const auto node : from) from_ids.push_back(w.graphs.node(node, graph));
    for (const auto node : to) to_ids.push_back(w.graphs.node(node, graph));
    encode_edges(data, bytes);
  }
  r.from = {from_ids.data(), static_cast<std::uint32_t>(from_ids.size())};
  r.to = {to_ids.data(), static_cast<std::uint32_t>(to_ids.size())};
  r.edges = {bytes.data(), static_cast<std::uint32_t>(bytes.size())};
  return c.finish<call>(result, r);
}

outcome graph_connect(call_context& c, const msg::graph_connect::request& q) {
  using call = msg::graph_connect;
  const auto& d = c.driver();
  const auto graph = c.native<handle_kind::graph>(q.graph);
  const auto from = natives_of<handle_kind::graph_node>(c, q.from);
  const auto to = natives_of<handle_kind::graph_node>(c, q.to);
  std::vector<CUgraphEdgeData> edges;
  if (from.size() != to.size() || !decode_edges(q.edges, from.size(), edges)) return c.malformed();
  if (c.failed()) return c.finish<call>(c.failure(), {});
  auto result = CUDA_ERROR_NOT_SUPPORTED;
  const auto general = q.remove ? d.cuGraphRemoveDependencies_v2 : d.cuGraphAddDependencies_v2;
  const auto simple = q.remove ? d.cuGraphRemoveDependencies : d.cuGraphAddDependencies;
  if (general != nullptr)
    result =
        general(graph, from.data(), to.data(), edges.empty() ? nullptr : edges.data(), from.size());
  else if (simple != nullptr && edges.empty())
    result = simple(graph, from.data(), to.data(), from.size());
  return c.finish<call>(result, {});
}

outcome graph_node_destroy(call_context& c, const msg::graph_node_destroy::request& q) {
  using call = msg::graph_node_destroy;
  const auto node = c.native<handle_kind::graph_node>(q.node);
  auto result = c.failure();
  if (result == CUDA_SUCCESS && node == nullptr) result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = c.driver().cuGraphDestroyNode ? c.driver().cuGraphDestroyNode(node)
                                           : CUDA_ERROR_NOT_SUPPORTED;
  if (result == CUDA_SUCCESS) c.owner().graphs.node_gone(q.node);
  return c.finish<call>(result, {});
}

outcome graph_find_in_clone(call_context& c, const msg::graph_find_in_clone::request& q) {
  using call = msg::graph_find_in_clone;
  const auto node = c.native<handle_kind::graph_node>(q.node);
  const auto clone = c.native<handle_kind::graph>(q.clone);
  call::reply r;
  if (c.failed()) return c.finish<call>(c.failure(), r);
  CUgraphNode found = nullptr;
  const auto result = c.driver().cuGraphNodeFindInClone
                          ? c.driver().cuGraphNodeFindInClone(&found, node, clone)
                          : CUDA_ERROR_NOT_SUPPORTED;
  if (result == CUDA_SUCCESS) r.found = c.owner().graphs.node(found, q.clone);
  return c.finish<call>(result, r);
}

outcome graph_exec_update(call_context& c, const msg::graph_exec_update::request& q) {
  using call = msg::graph_exec_update;
  const auto& d = c.driver();
  auto& w = c.owner();
  const auto exec = c.native<handle_kind::graph_exec>(q.exec);
  const auto graph = c.native<handle_kind::graph>(q.graph);
  call::reply r;
  if (c.failed()) return c.finish<call>(c.failure(), r);
  CUgraphExecUpdateResultInfo info{};
  auto result = CUDA_ERROR_NOT_SUPPORTED;
  if (d.cuGraphExecUpdate_v2 != nullptr)
    result = d.cuGraphExecUpdate_v2(exec, graph, &info);
  else if (d.cuGraphExecUpdate != nullptr)
    result = d.cuGraphExecUpdate(exec, graph, &info.errorNode, &info.result);
  r.detail = static_cast<std::int32_t>(info.result);
  if (info.errorNode != nullptr) r.error_node = w.graphs.node(info.errorNode, q.graph);
  if (info.errorFromNode != nullptr) r.error_from_node = w.graphs.node(info.errorFromNode, q.graph);
  r.watched = result == CUDA_SUCCESS && holds_memory_nodes(d, graph);
  std::vector<std::uint64_t> words;
  if (result == CUDA_SUCCESS) {
    auto boxes = w.graph_data.boxes_of(graph, q.graph);
    words = flat(boxes);
    w.graph_data.set_boxes(exec, std::move(boxes));
  }
  r.boxes = {words.data(), static_cast<std::uint32_t>(words.size())};
  return c.finish<call>(result, r);
}

// The driver writes a file; it goes into memory of ours, and the client writes it where the program
// wants it.
outcome graph_dot(call_context& c, const msg::graph_dot::request& q) {
  using call = msg::graph_dot;
  const auto graph = c.native<handle_kind::graph>(q.graph);
  call::reply r;
  if (c.failed()) return c.finish<call>(c.failure(), r);
  if (c.driver().cuGraphDebugDotPrint == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, r);
  const int memory = ::memfd_create("gpuwire-dot", MFD_CLOEXEC);
  if (memory < 0) return c.finish<call>(CUDA_ERROR_OPERATING_SYSTEM, r);
  const auto path = "/proc/self/fd/" + std::to_string(memory);
  const auto result = c.driver().cuGraphDebugDotPrint(graph, path.c_str(), q.flags);
  std::vector<std::byte> text;
  const auto size = ::lseek(memory, 0, SEEK_END);
  if (result == CUDA_SUCCESS && size > 0) {
    text.resize(static_cast<std::size_t>(size));
    const auto read = ::pread(memory, text.data(), text.size(), 0);
    text.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  }
  ::close(memory);
  r.text = {text.data(), text.size()};
  return c.finish<call>(result, r);
}

}  // namespace gpuwire::daemon::custom
