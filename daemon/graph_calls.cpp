// SPDX-License-Identifier: Apache-2.0
// The lives of graphs and executable graphs, and which nodes a graph has.
#include <algorithm>

#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/graph_walk.hpp"

namespace gpuwire::daemon::custom {
namespace {

struct instantiation {
  CUgraphExec exec = nullptr;
  CUgraphNode error_node = nullptr;
  CUgraphInstantiateResult detail = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  std::vector<char> log;
};

CUresult instantiate(const driver_table& d, const msg::graph_instantiate::request& q, CUgraph graph,
                     CUstream upload, instantiation& out) {
  switch (q.revision) {
    case 1:
    case 2: {
      out.log.resize(std::min(q.log_bytes, limits::log_buffer_bytes_max));
      auto* log = out.log.empty() ? nullptr : out.log.data();
      const auto function = q.revision == 1 ? d.cuGraphInstantiate : d.cuGraphInstantiate_v2;
      return function == nullptr ? CUDA_ERROR_NOT_SUPPORTED
                                 : function(&out.exec, graph, &out.error_node, log, out.log.size());
    }
    case 3:
      return d.cuGraphInstantiateWithFlags == nullptr
                 ? CUDA_ERROR_NOT_SUPPORTED
                 : d.cuGraphInstantiateWithFlags(&out.exec, graph, q.flags);
    default: {
      if (d.cuGraphInstantiateWithParams == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
      parameters.flags = q.flags;
      parameters.hUploadStream = upload;
      const auto result = d.cuGraphInstantiateWithParams(&out.exec, graph, &parameters);
      out.error_node = parameters.hErrNode_out;
      out.detail = parameters.result_out;
      return result;
    }
  }
}

}  // namespace

outcome graph_instantiate(call_context& c, const msg::graph_instantiate::request& q) {
  using call = msg::graph_instantiate;
  auto& w = c.owner();
  const auto graph = c.native<handle_kind::graph>(q.graph);
  const auto upload = c.stream(q.upload_stream);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  instantiation made;
  std::vector<std::uint64_t> words;
  const auto result = instantiate(c.driver(), q, graph, upload, made);
  call::reply r;
  r.detail = static_cast<std::int32_t>(made.detail);
  r.log = {made.log.data(),
           static_cast<std::size_t>(std::find(made.log.begin(), made.log.end(), '\0') -
                                    made.log.begin())};
  if (result == CUDA_SUCCESS) {
    r.exec = c.mint<handle_kind::graph_exec>(made.exec);
    r.watched = holds_memory_nodes(c.driver(), graph);
    auto boxes = w.graph_data.boxes_of(graph, q.graph);
    words = flat(boxes);
    w.graph_data.set_boxes(made.exec, std::move(boxes));
  }
  r.boxes = {words.data(), static_cast<std::uint32_t>(words.size())};
  if (made.error_node != nullptr) r.error_node = w.graphs.node(made.error_node, q.graph);
  return c.finish<call>(result, r);
}

outcome graph_launch(call_context& c, const msg::graph_launch::request& q) {
  const auto s = c.stream_of(q.stream);
  const auto exec = c.native<handle_kind::graph_exec>(q.exec);
  auto result = c.failure();
  if (result == CUDA_SUCCESS)
    result = c.driver().cuGraphLaunch ? c.driver().cuGraphLaunch(exec, s.native)
                                      : CUDA_ERROR_NOT_SUPPORTED;
  c.owner().graph_data.launched(exec, q.delivery, s, result != CUDA_SUCCESS);
  c.count_operation(q.stream, s);
  return c.finish<msg::graph_launch>(result, {});
}

outcome graph_upload(call_context& c, const msg::graph_upload::request& q) {
  const auto s = c.stream_of(q.stream);
  const auto exec = c.native<handle_kind::graph_exec>(q.exec);
  auto result = c.failure();
  if (result == CUDA_SUCCESS)
    result = c.driver().cuGraphUpload ? c.driver().cuGraphUpload(exec, s.native)
                                      : CUDA_ERROR_NOT_SUPPORTED;
  c.count_operation(q.stream, s);
  return c.finish<msg::graph_upload>(result, {});
}

outcome graph_exec_destroy(call_context& c, const msg::graph_exec_destroy::request& q) {
  using call = msg::graph_exec_destroy;
  auto& w = c.owner();
  const auto removed = w.handles(handle_kind::graph_exec).remove(q.exec);
  if (!removed) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  const auto exec = static_cast<CUgraphExec>(removed->native);
  w.graph_data.forget(exec);
  if (c.called()) return c.finish<call>(c.driver().cuGraphExecDestroy(exec), {});
  w.frees.post(c.ticket(),
               [&w, exec] { return static_cast<int>(w.driver().cuGraphExecDestroy(exec)); });
  return c.finish<call>(CUDA_SUCCESS, {});
}

outcome graph_destroy(call_context& c, const msg::graph_destroy::request& q) {
  using call = msg::graph_destroy;
  auto& w = c.owner();
  const auto found = w.handles(handle_kind::graph).find(q.graph);
  if (!found) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  const auto graph = static_cast<CUgraph>(found->native);
  w.graphs.graph_gone(q.graph);
  if (c.called()) return c.finish<call>(c.driver().cuGraphDestroy(graph), {});
  w.frees.post(c.ticket(),
               [&w, graph] { return static_cast<int>(w.driver().cuGraphDestroy(graph)); });
  return c.finish<call>(CUDA_SUCCESS, {});
}

outcome graph_list(call_context& c, const msg::graph_list::request& q) {
  using call = msg::graph_list;
  const auto& d = c.driver();
  const auto graph = c.native<handle_kind::graph>(q.graph);
  const auto list = q.roots ? d.cuGraphGetRootNodes : d.cuGraphGetNodes;
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (list == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  call::reply r;
  std::size_t count = 0;
  auto result = list(graph, nullptr, &count);
  std::vector<std::uint64_t> ids;
  if (result == CUDA_SUCCESS && q.nodes_wanted && count != 0) {
    std::vector<CUgraphNode> nodes(count);
    result = list(graph, nodes.data(), &count);
    nodes.resize(std::min(count, nodes.size()));
    for (const auto node : nodes) ids.push_back(c.owner().graphs.node(node, q.graph));
  }
  r.count = count;
  r.nodes = {ids.data(), static_cast<std::uint32_t>(ids.size())};
  return c.finish<call>(result, r);
}

}  // namespace gpuwire::daemon::custom
