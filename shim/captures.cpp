// SPDX-License-Identifier: Apache-2.0
#include "shim/captures.hpp"

#include <map>
#include <mutex>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/graph_edges.hpp"
#include "shim/graphs.hpp"

namespace gpuwire::shim {
namespace {

// The arrays that cuStreamGetCaptureInfo hands out are the driver's natively, and valid until the
// next call for that stream.
struct dependency_arrays {
  std::vector<CUgraphNode> nodes;
  std::vector<CUgraphEdgeData> edges;
};

struct arrays_of_streams {
  std::mutex mutex;
  std::map<const stream_credit*, dependency_arrays> by_stream;  // addresses of the elements stay
};

arrays_of_streams& arrays() {
  static auto* the_arrays = new arrays_of_streams;
  return *the_arrays;
}

CUresult begin(CUstream stream, msg::capture_begin::request& q, CUstreamCaptureMode mode) {
  const auto target = find_stream(stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (static_cast<unsigned>(mode) > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  q.stream = target.id;
  q.mode = static_cast<std::uint32_t>(mode);
  auto& captures = state().captures;
  captures.fetch_add(1);
  const CUresult r = call<msg::capture_begin>(q).result;
  if (r != CUDA_SUCCESS || target.credit->capturing.exchange(true)) captures.fetch_sub(1);
  return r;
}

struct info_wanted {
  CUstreamCaptureStatus* status = nullptr;
  cuuint64_t* id = nullptr;
  CUgraph* graph = nullptr;
  const CUgraphNode** dependencies = nullptr;
  const CUgraphEdgeData** edges = nullptr;
  std::size_t* count = nullptr;
};

void hand_out(const msg::capture_info::reply& body, const stream_credit* stream,
              const info_wanted& out) {
  if (out.id != nullptr) *out.id = body.capture;
  if (out.graph != nullptr) *out.graph = handle_from<CUgraph>(body.graph);
  if (out.count != nullptr) *out.count = body.dependencies.size;
  if (out.dependencies == nullptr) return;
  auto& all = arrays();
  std::lock_guard lock(all.mutex);
  auto& mine = all.by_stream[stream];
  mine.nodes.clear();
  for (const auto id : body.dependencies) mine.nodes.push_back(handle_from<CUgraphNode>(id));
  decode_edges(body.edges, mine.nodes.size(), mine.edges);
  *out.dependencies = mine.nodes.data();
  if (out.edges != nullptr) *out.edges = mine.edges.data();
}

CUresult info(CUstream stream, std::uint8_t revision, const info_wanted& out) {
  const auto target = find_stream(stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (out.status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out.edges != nullptr && out.dependencies == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!any_capture()) {
    *out.status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  msg::capture_info::request q;
  q.stream = target.id;
  q.revision = revision;
  q.graph_wanted = out.graph != nullptr;
  q.dependencies_wanted = out.dependencies != nullptr || out.count != nullptr;
  q.edges_wanted = out.edges != nullptr;
  const auto a = call<msg::capture_info>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  *out.status = static_cast<CUstreamCaptureStatus>(a.body.status);
  if (*out.status == CU_STREAM_CAPTURE_STATUS_ACTIVE) hand_out(a.body, target.credit, out);
  return CUDA_SUCCESS;
}

CUresult update(CUstream stream, const CUgraphNode* dependencies, const CUgraphEdgeData* edges,
                std::size_t count, unsigned flags) {
  const auto target = find_stream(stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  node_list list;
  if (!list.take(dependencies, edges, count)) return CUDA_ERROR_INVALID_VALUE;
  msg::capture_dependencies::request q;
  q.stream = target.id;
  q.dependencies = list.nodes();
  q.edges = list.edges();
  q.flags = flags;
  return call<msg::capture_dependencies>(q).result;
}

}  // namespace

void capture_is_over(stream_credit& stream) {
  if (!stream.capturing.exchange(false)) return;
  state().captures.fetch_sub(1);
  auto& all = arrays();
  std::lock_guard lock(all.mutex);
  all.by_stream.erase(&stream);
}

namespace custom {

CUresult cuStreamBeginCapture(CUstream hStream) {
  msg::capture_begin::request q;
  q.revision = 1;
  return begin(hStream, q, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  msg::capture_begin::request q;
  q.revision = 2;
  return begin(hStream, q, mode);
}
CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                     const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* dependencyData,
                                     std::size_t numDependencies, CUstreamCaptureMode mode) {
  if (hGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  node_list list;
  if (!list.take(dependencies, dependencyData, numDependencies)) return CUDA_ERROR_INVALID_VALUE;
  msg::capture_begin::request q;
  q.revision = 2;
  q.graph = id_of(hGraph);
  q.dependencies = list.nodes();
  q.edges = list.edges();
  return begin(hStream, q, mode);
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::capture_end::request q;
  q.stream = target.id;
  const auto a = call<msg::capture_end>(q);
  if (a.body.over) capture_is_over(*target.credit);
  if (a.result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
    *phGraph = a.result == CUDA_SUCCESS ? handle_from<CUgraph>(a.body.graph) : nullptr;
  return a.result;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (captureStatus == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!any_capture()) return CUDA_SUCCESS;
  msg::cuStreamIsCapturing::request q;
  q.hStream = target.id;
  q.captureStatus_wanted = true;
  const auto a = call<msg::cuStreamIsCapturing>(q);
  if (a.result == CUDA_SUCCESS)
    *captureStatus = static_cast<CUstreamCaptureStatus>(a.body.captureStatus);
  return a.result;
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                cuuint64_t* id_out) {
  return info(hStream, 1, {captureStatus_out, id_out});
}
CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out,
                                   std::size_t* numDependencies_out) {
  return info(
      hStream, 2,
      {captureStatus_out, id_out, graph_out, dependencies_out, nullptr, numDependencies_out});
}
CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out,
                                   const CUgraphEdgeData** edgeData_out,
                                   std::size_t* numDependencies_out) {
  return info(
      hStream, 3,
      {captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out});
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies,
                                           std::size_t numDependencies, unsigned int flags) {
  return update(hStream, dependencies, nullptr, numDependencies, flags);
}
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies,
                                              const CUgraphEdgeData* dependencyData,
                                              std::size_t numDependencies, unsigned int flags) {
  return update(hStream, dependencies, dependencyData, numDependencies, flags);
}

// The driver only stores it; what it means for later calls of this thread is the daemon's business.
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || static_cast<unsigned>(*mode) > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  thread_state& t = self();
  const auto before = static_cast<CUstreamCaptureMode>(t.capture_mode);
  if (*mode != before) {
    need_lane(t);
    msg::capture_mode::request q;
    q.mode = static_cast<std::uint32_t>(*mode);
    if (const CUresult r = detail::append<msg::capture_mode>(t, q); r != CUDA_SUCCESS) return r;
  }
  t.capture_mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

}  // namespace custom
}  // namespace gpuwire::shim
