// SPDX-License-Identifier: Apache-2.0
// Beginning, ending and asking about stream captures.
#include <utility>

#include "capture.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

bool valid_mode(CUstreamCaptureMode mode) {
  return mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult begin(CUstream handle, CUstreamCaptureMode mode) {
  return initialised([&] {
    auto on = stream_of(handle);
    require(valid_mode(mode));
    std::lock_guard lock(graph_mutex());
    begin_capture(on, mode, nullptr, {});
    return CUDA_SUCCESS;
  });
}

// Null when the stream does not capture. The legacy stream has no answer while a blocking stream
// captures; asking does no harm to that capture.
std::shared_ptr<capture> capture_of(const stream& which) {
  if (which.legacy) check_legacy_question(*which.in);
  return which.capturing;
}

CUstreamCaptureStatus status_of(const std::shared_ptr<capture>& which) {
  if (!which) return CU_STREAM_CAPTURE_STATUS_NONE;
  return which->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

struct wanted_info {
  CUstreamCaptureStatus* status;
  cuuint64_t* id;
  CUgraph* graph;
  const CUgraphNode** nodes;
  const CUgraphEdgeData** data;
  size_t* count;
};

CUresult info(CUstream handle, const wanted_info& out) {
  return initialised([&] {
    auto which = any_stream_of(handle);
    require(out.status != nullptr && (out.data == nullptr || out.nodes != nullptr));
    std::lock_guard lock(graph_mutex());
    auto in = capture_of(*which);
    *out.status = status_of(in);
    if (*out.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    auto& member = in->members.at(which.get());
    member.shown_nodes.clear();
    member.shown_data.clear();
    bool plain = true;
    for (const auto& edge : member.next_dependencies) {
      member.shown_nodes.push_back(edge.other->handle);
      member.shown_data.push_back(edge.data);
      plain = plain && !has_edge_data(edge.data);
    }
    require(out.nodes == nullptr || out.data != nullptr || plain, CUDA_ERROR_LOSSY_QUERY);
    const bool any = !member.shown_nodes.empty();
    if (out.id != nullptr) *out.id = in->id;
    if (out.graph != nullptr) *out.graph = in->into->handle;
    if (out.nodes != nullptr) *out.nodes = any ? member.shown_nodes.data() : nullptr;
    if (out.data != nullptr) *out.data = any ? member.shown_data.data() : nullptr;
    if (out.count != nullptr) *out.count = member.shown_nodes.size();
    return CUDA_SUCCESS;
  });
}

CUresult update(CUstream handle, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                std::size_t count, unsigned flags) {
  return initialised([&] {
    auto on = stream_of(handle);
    std::lock_guard lock(graph_mutex());
    auto in = on->capturing;
    require(in != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    require(in->valid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    require(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    const auto wanted = edges_of(*in->into, nodes, data, count);
    auto& list = in->members.at(on.get()).next_dependencies;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) list.clear();
    add_missing_edges(list, wanted);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuStreamBeginCapture(CUstream stream) {
  return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return begin(stream, mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph hGraph, const CUgraphNode* nodes,
                                     const CUgraphEdgeData* data, size_t count,
                                     CUstreamCaptureMode mode) {
  return initialised([&] {
    auto on = stream_of(handle);
    require(valid_mode(mode));
    std::lock_guard lock(graph_mutex());
    auto into = graph_of(hGraph);
    auto dependencies = edges_of(*into, nodes, data, count);
    begin_capture(on, mode, std::move(into), std::move(dependencies));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  return initialised([&] {
    if (out != nullptr) *out = nullptr;
    auto on = any_stream_of(handle);
    std::lock_guard lock(graph_mutex());
    const CUgraph made = end_capture(on);
    if (out != nullptr) *out = made;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return info(handle, {status, nullptr, nullptr, nullptr, nullptr, nullptr});
}
CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return info(handle, {status, id, nullptr, nullptr, nullptr, nullptr});
}
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* into, const CUgraphNode** nodes, size_t* count) {
  return info(handle, {status, id, into, nodes, nullptr, count});
}
CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* into, const CUgraphNode** nodes,
                                   const CUgraphEdgeData** data, size_t* count) {
  return info(handle, {status, id, into, nodes, data, count});
}

CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* nodes, size_t count,
                                           unsigned int flags) {
  return update(handle, nodes, nullptr, count, flags);
}
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* nodes,
                                              const CUgraphEdgeData* data, size_t count,
                                              unsigned int flags) {
  return update(handle, nodes, data, count, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return initialised([&] {
    require(mode != nullptr);
    // Not checked, as natively: an unknown mode acts as the global one.
    std::swap(thread_capture_mode(), *mode);
    return CUDA_SUCCESS;
  });
}
