// SPDX-License-Identifier: Apache-2.0
// Stream capture: streams whose work becomes nodes of a graph instead of being run.
//
// A capture begins on one stream, its origin. Another stream joins when it waits for an event that
// was recorded in the capture. Of each stream the capture keeps the nodes that its next one will
// depend on. What a capture does not allow invalidates it; it must still be ended on its origin.
//
// All state is guarded by graph_mutex(), which the functions here take themselves. Without any
// capture in the process each of them costs the read of an atomic.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "graph.hpp"
#include "stream.hpp"

namespace gpuwire::softgpu {

struct capture_member {
  std::shared_ptr<stream> which;
  std::vector<graph_edge> next_dependencies;
  // What cuStreamGetCaptureInfo points to, until the next call on the stream.
  std::vector<CUgraphNode> shown_nodes;
  std::vector<CUgraphEdgeData> shown_data;
};

struct capture {
  cuuint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  stream* origin = nullptr;
  std::shared_ptr<graph> into;
  bool valid = true;
  bool ended = false;
  std::map<stream*, capture_member> members;
};

// What an event recorded in a capture stands for.
struct captured_point {
  std::shared_ptr<capture> in;
  std::vector<graph_edge> nodes;
};

bool is_capturing(const stream& which);

// Adds a node to the capture of the stream. Refuses with 901 when that is invalid. A programmatic
// node may begin before kernels that it depends on have ended.
CUgraphNode capture_node(const std::shared_ptr<stream>& on, node_payload payload,
                         bool programmatic = false);

// Records, or captures the record.
void record_event(const std::shared_ptr<stream>& on, event& mark);
// Waits, captures the wait, or lets the stream join a capture.
void wait_for_event(const std::shared_ptr<stream>& on, event& mark);

// At the head of calls that captures may prohibit: refuses with 900 then, and invalidates the
// captures that prohibit it.
void check_unsafe_call();
// For calls that no capture may contain, whatever its mode: those that name the stream (query,
// synchronise, callbacks), and those that mean a whole context.
void check_call_on(const stream& which);
void check_call_on(context& which);
// The legacy stream depends on blocking streams: 906 and invalid while one of them captures.
void check_legacy_use(context& in);
// The same for a question about the legacy stream, under the lock: 906, and nothing is invalidated.
void check_legacy_question(const context& in);
// For work that has no node: 900 on a capturing stream, 906 as above.
void check_use_in_capture(const stream& on);
// 907 when the event was last recorded in a capture (which becomes invalid if `invalidates`), 1
// when that capture has ended.
void check_event_not_captured(event& which, bool invalidates);

// When a stream is destroyed: a capture that began on it ends.
void leave_capture(stream& which);
// When a context is: all captures with streams of it end.
void end_captures_of(const context& ended);

// ---- for the functions of the API
// -----------------------------------------------------------------------------------

CUstreamCaptureMode& thread_capture_mode();
void begin_capture(const std::shared_ptr<stream>& on, CUstreamCaptureMode mode,
                   std::shared_ptr<graph> into, std::vector<graph_edge> dependencies);
// Under the lock, as begin_capture.
CUgraph end_capture(const std::shared_ptr<stream>& on);
// Adds the edges to nodes that are not there yet.
void add_missing_edges(std::vector<graph_edge>& to, const std::vector<graph_edge>& more);

}  // namespace gpuwire::softgpu
