// SPDX-License-Identifier: Apache-2.0
// Begin and end of captures, what is known of one, and the lanes' modes. All on the executor: for
// the driver its thread is the origin of every capture.
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/graph_edges.hpp"

namespace gpuwire::daemon::custom {
namespace {

CUresult begin(const driver_table& d, const msg::capture_begin::request& q, CUstream stream,
               CUgraph graph, const std::vector<CUgraphNode>& dependencies,
               const std::vector<CUgraphEdgeData>& edges) {
  const auto mode = static_cast<CUstreamCaptureMode>(q.mode);
  if (q.graph != 0) {
    if (d.cuStreamBeginCaptureToGraph == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    return d.cuStreamBeginCaptureToGraph(
        stream, graph, dependencies.empty() ? nullptr : dependencies.data(),
        edges.empty() ? nullptr : edges.data(), dependencies.size(), mode);
  }
  if (q.revision == 1 && d.cuStreamBeginCapture != nullptr) return d.cuStreamBeginCapture(stream);
  return d.cuStreamBeginCapture_v2 ? d.cuStreamBeginCapture_v2(stream, mode)
                                   : CUDA_ERROR_NOT_SUPPORTED;
}

// What the three revisions of cuStreamGetCaptureInfo return.
struct capture_state {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  std::size_t count = 0;
};

CUresult ask(const driver_table& d, const msg::capture_info::request& q, CUstream stream,
             capture_state& out) {
  auto** dependencies = q.dependencies_wanted ? &out.dependencies : nullptr;
  auto* count = q.dependencies_wanted ? &out.count : nullptr;
  if (q.revision == 3 && d.cuStreamGetCaptureInfo_v3 != nullptr) {
    return d.cuStreamGetCaptureInfo_v3(stream, &out.status, &out.id, &out.graph, dependencies,
                                       q.edges_wanted ? &out.edges : nullptr, count);
  }
  if (q.revision >= 2) {
    return d.cuStreamGetCaptureInfo_v2 == nullptr
               ? CUDA_ERROR_NOT_SUPPORTED
               : d.cuStreamGetCaptureInfo_v2(stream, &out.status, &out.id, &out.graph, dependencies,
                                             count);
  }
  return d.cuStreamGetCaptureInfo == nullptr
             ? CUDA_ERROR_NOT_SUPPORTED
             : d.cuStreamGetCaptureInfo(stream, &out.status, &out.id);
}

}  // namespace

outcome capture_begin(call_context& c, const msg::capture_begin::request& q) {
  using call = msg::capture_begin;
  const auto s = c.stream_of(q.stream);
  const auto graph = c.native<handle_kind::graph>(q.graph);
  const auto dependencies = natives_of<handle_kind::graph_node>(c, q.dependencies);
  std::vector<CUgraphEdgeData> edges;
  if (!decode_edges(q.edges, dependencies.size(), edges)) return c.malformed();
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (q.mode > CU_STREAM_CAPTURE_MODE_RELAXED) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  c.enter(s.context);
  const auto result = begin(c.driver(), q, s.native, graph, dependencies, edges);
  if (result == CUDA_SUCCESS) {
    auto& captures = c.owner().captures;
    captures.begun(s.native, s.context, c.ticket().lane, static_cast<CUstreamCaptureMode>(q.mode));
    cuuint64_t id = 0;
    auto status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (q.graph != 0 && c.driver().cuStreamGetCaptureInfo != nullptr &&
        c.driver().cuStreamGetCaptureInfo(s.native, &status, &id) == CUDA_SUCCESS)
      captures.graph_seen(id, q.graph);
  }
  return c.finish<call>(result, {});
}

outcome capture_end(call_context& c, const msg::capture_end::request& q) {
  using call = msg::capture_end;
  const auto& d = c.driver();
  auto& w = c.owner();
  const auto s = c.stream_of(q.stream);
  call::reply r;
  if (c.failed()) return c.finish<call>(c.failure(), r);
  if (!w.captures.may_end(s.native, c.ticket().lane))
    return c.finish<call>(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, r);
  if (d.cuStreamEndCapture == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, r);
  c.enter(s.context);
  cuuint64_t id = 0;
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (d.cuStreamGetCaptureInfo != nullptr) d.cuStreamGetCaptureInfo(s.native, &status, &id);
  const auto seen = w.captures.graph_of(id);
  CUgraph graph = nullptr;
  const auto result = d.cuStreamEndCapture(s.native, &graph);
  if (result == CUDA_SUCCESS && graph != nullptr) r.graph = w.graphs.graph(graph);
  // An invalid capture takes the graph with it that the client may know from asking.
  if (seen != 0 && seen != r.graph) w.graphs.graph_gone(seen);
  status = CU_STREAM_CAPTURE_STATUS_NONE;
  const auto after =
      d.cuStreamIsCapturing ? d.cuStreamIsCapturing(s.native, &status) : CUDA_SUCCESS;
  r.over = after != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_NONE;
  if (r.over) w.captures.ended(s.native);
  return c.finish<call>(result, r);
}

outcome capture_mode(call_context& c, const msg::capture_mode::request& q) {
  if (q.mode > CU_STREAM_CAPTURE_MODE_RELAXED) return c.malformed();
  c.owner().captures.set_mode(c.ticket().lane, static_cast<CUstreamCaptureMode>(q.mode));
  return c.finish<msg::capture_mode>(CUDA_SUCCESS, {});
}

outcome capture_info(call_context& c, const msg::capture_info::request& q) {
  using call = msg::capture_info;
  auto& w = c.owner();
  const auto s = c.stream_of(q.stream);
  call::reply r;
  if (c.failed()) return c.finish<call>(c.failure(), r);
  c.enter(s.context);
  capture_state state;
  const auto result = ask(c.driver(), q, s.native, state);
  r.status = static_cast<std::int32_t>(state.status);
  if (result != CUDA_SUCCESS || state.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return c.finish<call>(result, r);
  r.capture = state.id;
  std::vector<std::uint64_t> nodes;
  std::vector<std::uint8_t> edges;
  if (state.graph != nullptr && (q.graph_wanted || q.dependencies_wanted)) {
    r.graph = w.graphs.graph(state.graph);
    w.captures.graph_seen(state.id, r.graph);
  }
  for (std::size_t i = 0; i < state.count; ++i)
    nodes.push_back(w.graphs.node(state.dependencies[i], r.graph));
  if (state.edges != nullptr) encode_edges({state.edges, state.count}, edges);
  r.dependencies = {nodes.data(), static_cast<std::uint32_t>(nodes.size())};
  r.edges = {edges.data(), static_cast<std::uint32_t>(edges.size())};
  return c.finish<call>(result, r);
}

outcome capture_dependencies(call_context& c, const msg::capture_dependencies::request& q) {
  using call = msg::capture_dependencies;
  const auto& d = c.driver();
  const auto s = c.stream_of(q.stream);
  auto dependencies = natives_of<handle_kind::graph_node>(c, q.dependencies);
  std::vector<CUgraphEdgeData> edges;
  if (!decode_edges(q.edges, dependencies.size(), edges)) return c.malformed();
  if (c.failed()) return c.finish<call>(c.failure(), {});
  c.enter(s.context);
  auto result = CUDA_ERROR_NOT_SUPPORTED;
  auto* list = dependencies.empty() ? nullptr : dependencies.data();
  if (!edges.empty() || d.cuStreamUpdateCaptureDependencies == nullptr) {
    if (d.cuStreamUpdateCaptureDependencies_v2 != nullptr)
      result = d.cuStreamUpdateCaptureDependencies_v2(
          s.native, list, edges.empty() ? nullptr : edges.data(), dependencies.size(), q.flags);
  } else {
    result = d.cuStreamUpdateCaptureDependencies(s.native, list, dependencies.size(), q.flags);
  }
  return c.finish<call>(result, {});
}

}  // namespace gpuwire::daemon::custom
