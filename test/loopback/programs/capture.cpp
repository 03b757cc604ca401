// SPDX-License-Identifier: Apache-2.0
// Stream capture: what lands in a graph, what the captured stream says of itself, what the driver refuses meanwhile, and
// the three modes between two threads. Every line printed is the driver's own answer, the same on any machine.
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "test/loopback/programs/common.hpp"

namespace {

void line(const char* what, CUresult result) {
  std::printf("%s: %d\n", what, static_cast<int>(result));
}

const char* type_name(CUgraphNode node) {
  static const char* const names[] = {"kernel", "memcpy", "memset", "host", "graph", "empty", "wait", "record"};
  CUgraphNodeType type;
  CHECK(cuGraphNodeGetType(node, &type));
  return static_cast<unsigned>(type) < 8 ? names[type] : "other";
}

void print_nodes(CUgraph graph) {
  size_t count = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &count));
  std::vector<CUgraphNode> nodes(count + 2);
  size_t room = count + 2;
  CHECK(cuGraphGetNodes(graph, nodes.data(), &room));
  REQUIRE(room == count && nodes[count] == nullptr);
  std::vector<std::string> types;
  for (size_t i = 0; i < count; ++i) types.emplace_back(type_name(nodes[i]));
  std::sort(types.begin(), types.end());
  size_t roots = 0;
  CHECK(cuGraphGetRootNodes(graph, nullptr, &roots));
  std::printf("%zu nodes, %zu roots:", count, roots);
  for (const auto& type : types) std::printf(" %s", type.c_str());
  std::printf("\n");
}

CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  CHECK(cuStreamIsCapturing(stream, &status));
  return status;
}

// More operations than a stream may have outstanding: nothing of anybody else's may be in the graph.
void count_nodes(const gpu& g, CUstream stream, CUdeviceptr place) {
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (int i = 0; i < 700; ++i) g.launch_store(place, i, stream);
  CHECK(cuMemsetD32Async(place + 4, 9, 3, stream));
  CHECK(cuMemcpyDtoDAsync(place + 16, place, 16, stream));
  CUgraph graph;
  CHECK(cuStreamEndCapture(stream, &graph));
  size_t count = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &count));
  std::printf("captured %zu\n", count);
  CUgraphExec exec;
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphDestroy(graph));
  int seen[8] = {};
  for (int round = 0; round < 3; ++round) {
    CHECK(cuMemsetD8(place, 0, 32));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(seen, place, sizeof(seen)));
    std::printf("replay %d: %d %d %d, %d %d %d\n", round, seen[0], seen[1], seen[3], seen[4], seen[5], seen[7]);
  }
  CHECK(cuGraphUpload(exec, stream));
  cuuint64_t flags = 77;
  CHECK(cuGraphExecGetFlags(exec, &flags));
  std::printf("flags %llu\n", static_cast<unsigned long long>(flags));
  CHECK(cuGraphExecDestroy(exec));
}

// More launches of a graph than a stream may have outstanding.
void many_launches(const gpu& g, CUstream stream, CUdeviceptr place) {
  CUgraph graph;
  CUgraphExec exec;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  g.launch_store(place, 5, stream);
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < 1500; ++round) CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
}

// A second stream joins through an event and leaves through another.
void fork_and_join(const gpu& g, CUstream stream, CUdeviceptr place) {
  CUstream other;
  CUevent fork, join;
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  std::printf("origin %d, other %d\n", status_of(stream), status_of(other));
  g.launch_store(place, 1, stream);
  CHECK(cuEventRecord(fork, stream));
  CHECK(cuStreamWaitEvent(other, fork, 0));
  std::printf("origin %d, other %d\n", status_of(stream), status_of(other));
  g.launch_store(place + 4, 2, other);
  g.launch_store(place + 8, 3, stream);
  CUgraph graph = nullptr;
  line("end while forked", cuStreamEndCapture(stream, &graph));
  std::printf("graph %s, origin %d, other %d\n", graph == nullptr ? "null" : "there", status_of(stream), status_of(other));

  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  g.launch_store(place, 1, stream);
  CHECK(cuEventRecord(fork, stream));
  CHECK(cuStreamWaitEvent(other, fork, 0));
  g.launch_store(place + 4, 2, other);
  g.launch_store(place + 8, 3, stream);
  CHECK(cuEventRecord(join, other));
  CHECK(cuStreamWaitEvent(stream, join, 0));
  g.launch_store(place + 12, 4, stream);
  CUresult ended = cuStreamEndCapture(stream, &graph);
  line("end", ended);
  if (ended == CUDA_SUCCESS) {
    print_nodes(graph);
    CHECK(cuGraphDestroy(graph));
  }
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuEventRecord(fork, stream));
  CHECK(cuStreamWaitEvent(other, fork, 0));
  line("end in the joined stream", cuStreamEndCapture(other, &graph));
  std::printf("origin %d\n", status_of(stream));
  line("end", cuStreamEndCapture(stream, &graph));
  CHECK(cuStreamDestroy(other));
  CHECK(cuEventDestroy(fork));
  CHECK(cuEventDestroy(join));
}

// The state of a capture while it lasts, and a change of what the next node depends on.
void look_inside(const gpu& g, CUstream stream, CUdeviceptr place) {
  CUstreamCaptureStatus status;
  cuuint64_t id = 0, same = 0;
  CUgraph graph = nullptr, end = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 99;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count));
  std::printf("status %d, id %s, %zu dependencies\n", status, id != 0 ? "there" : "missing", count);
  g.launch_store(place, 1, stream);
  CHECK(cuStreamGetCaptureInfo(stream, &status, &same, &graph, &nodes, &edges, &count));
  REQUIRE(same == id && count == 1);
  std::printf("depends on %zu %s\n", count, type_name(nodes[0]));
  CUgraphNode first = nodes[0];
  g.launch_store(place + 4, 2, stream);
  CHECK(cuStreamUpdateCaptureDependencies(stream, &first, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  CHECK(cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count));
  REQUIRE(count == 1 && nodes[0] == first);
  CHECK(cuMemsetD32Async(place + 8, 5, 1, stream));
  size_t so_far = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &so_far));
  std::printf("%zu nodes so far\n", so_far);
  line("end", cuStreamEndCapture(stream, &end));
  REQUIRE(end == graph);
  print_nodes(graph);
  line("update outside", cuStreamUpdateCaptureDependencies(stream, &first, nullptr, 1, 0));
  CHECK(cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr, nullptr));
  std::printf("status %d\n", status);
  CHECK(cuGraphDestroy(graph));
}

// What is refused inside a capture, and that the context is as good as before.
void refusals(const gpu& g, CUstream stream, CUdeviceptr place) {
  CUgraph graph;
  CUevent event;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  line("end without begin", cuStreamEndCapture(stream, &graph));
  line("begin on the legacy stream", cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
  line("begin with a mode that is none", cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(7)));
  struct attempt {
    const char* name;
    CUresult (*call)(const gpu&, CUstream, CUevent, CUdeviceptr);
  };
  const attempt attempts[] = {
      {"synchronise the stream", [](const gpu&, CUstream s, CUevent, CUdeviceptr) { return cuStreamSynchronize(s); }},
      {"query the stream", [](const gpu&, CUstream s, CUevent, CUdeviceptr) { return cuStreamQuery(s); }},
      {"synchronise the context", [](const gpu&, CUstream, CUevent, CUdeviceptr) { return cuCtxSynchronize(); }},
      {"query a captured event", [](const gpu&, CUstream, CUevent e, CUdeviceptr) { return cuEventQuery(e); }},
      {"synchronise a captured event", [](const gpu&, CUstream, CUevent e, CUdeviceptr) { return cuEventSynchronize(e); }},
      {"begin again", [](const gpu&, CUstream s, CUevent, CUdeviceptr) { return cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL); }},
  };
  for (const auto& a : attempts) {
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    g.launch_store(place, 1, stream);
    CHECK(cuEventRecord(event, stream));
    line(a.name, a.call(g, stream, event, place));
    std::printf("then status %d", status_of(stream));
    CUresult end = cuStreamEndCapture(stream, &graph);
    std::printf(", end %d, graph %s, status %d\n", end, graph == nullptr ? "null" : "there", status_of(stream));
    if (end == CUDA_SUCCESS) CHECK(cuGraphDestroy(graph));
  }
  CHECK(cuEventDestroy(event));
  int value = 0;
  g.launch_store(place, 42, stream);
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH(&value, place, 4));
  REQUIRE(value == 42);
}

// The legacy stream beside a capturing stream that blocks.
void beside_the_legacy_stream(const gpu& g, CUdeviceptr place) {
  CUstream blocking;
  CUgraph graph;
  CUstreamCaptureStatus status;
  CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  CHECK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
  g.launch_store(place, 1, blocking);
  line("ask the legacy stream", cuStreamIsCapturing(nullptr, &status));
  std::printf("status %d\n", status_of(blocking));
  int value = 3;
  void* parameters[] = {&place, &value};
  line("launch into it", cuLaunchKernel(g.store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  std::printf("status %d\n", status_of(blocking));
  line("end", cuStreamEndCapture(blocking, &graph));
  CHECK(cuStreamDestroy(blocking));
}

// Two threads that take turns: what one may do while the other captures.
class turns {
 public:
  void pass(int next) {
    std::lock_guard lock(mutex_);
    turn_ = next;
    changed_.notify_all();
  }
  void await(int mine) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == mine; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int turn_ = 0;
};

void two_threads(const gpu& g, CUstream stream, CUdeviceptr place) {
  static const char* const names[] = {"global", "thread local", "relaxed"};
  for (int captures = 0; captures < 3; ++captures) {
    for (int asks = 0; asks < 3; ++asks) {
      turns t;
      std::thread other([&] {
        CHECK(cuCtxSetCurrent(g.context));
        auto mode = static_cast<CUstreamCaptureMode>(asks);
        CHECK(cuThreadExchangeStreamCaptureMode(&mode));
        std::printf("before %d, ", static_cast<int>(mode));
        t.await(1);
        CUdeviceptr memory = 0;
        CUresult allocated = cuMemAlloc(&memory, 4096);
        std::printf("%s captures, %s allocates: %d\n", names[captures], names[asks], allocated);
        if (allocated == CUDA_SUCCESS) line("free", cuMemFree(memory));
        CUgraph graph = nullptr;
        if (captures != CU_STREAM_CAPTURE_MODE_RELAXED) line("end in the wrong thread", cuStreamEndCapture(stream, &graph));
        t.pass(2);
      });
      CHECK(cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(captures)));
      g.launch_store(place, 1, stream);
      t.pass(1);
      t.await(2);
      std::printf("status %d, ", status_of(stream));
      CUgraph graph = nullptr;
      line("end", cuStreamEndCapture(stream, &graph));
      if (graph != nullptr) CHECK(cuGraphDestroy(graph));
      other.join();
    }
  }
  // The thread that captures, by its own mode.
  for (int captures = 0; captures < 3; ++captures) {
    for (int asks = 0; asks < 3; ++asks) {
      auto mode = static_cast<CUstreamCaptureMode>(asks);
      CHECK(cuThreadExchangeStreamCaptureMode(&mode));
      CHECK(cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(captures)));
      CUdeviceptr memory = 0;
      CUresult allocated = cuMemAlloc(&memory, 4096);
      std::printf("%s captures itself in %s mode: %d, ", names[captures], names[asks], allocated);
      if (allocated == CUDA_SUCCESS) CHECK(cuMemFree(memory));
      CUgraph graph = nullptr;
      line("end", cuStreamEndCapture(stream, &graph));
      if (graph != nullptr) CHECK(cuGraphDestroy(graph));
      CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    }
  }
}

}  // namespace

int main() {
  gpu g;
  CUdeviceptr place;
  CUstream stream;
  CHECK(cuMemAlloc(&place, 4096));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  count_nodes(g, stream, place);
  many_launches(g, stream, place);
  fork_and_join(g, stream, place);
  look_inside(g, stream, place);
  refusals(g, stream, place);
  beside_the_legacy_stream(g, place);
  two_threads(g, stream, place);
  std::printf("PASSED\n");
}
