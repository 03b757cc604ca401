// SPDX-License-Identifier: Apache-2.0
// Stream capture. The codes and the shapes of captured graphs are those of the real driver.
#include <atomic>
#include <thread>

#include "graph_fixture.hpp"

namespace {

// Runs `call` inside a capture that has one kernel; says what it returned and what became of the
// capture.
struct outcome {
  int call;
  int status;
  int end;
  std::string shape;
};

template <typename Call>
outcome in_capture(graph_fixture& with, CUstreamCaptureMode mode, CUstream origin, Call call) {
  with.begin(origin, mode);
  REQUIRE_OK(with.count(origin));
  outcome found{};
  found.call = static_cast<int>(call());
  found.status = with.status(origin);
  auto* graph = reinterpret_cast<CUgraph>(1);
  found.end = driver(cuStreamEndCapture)(origin, &graph);
  if (found.end == CUDA_SUCCESS) {
    found.shape = graph_fixture::shape(graph);
    REQUIRE_OK(driver(cuGraphDestroy)(graph));
  } else {
    CHECK(graph == nullptr);
  }
  CHECK(with.status(origin) == CU_STREAM_CAPTURE_STATUS_NONE);
  return found;
}

constexpr auto global = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr auto thread_local_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr auto relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

void check_refused(const outcome& found, CUresult code) {
  CHECK(found.call == static_cast<int>(code));
  CHECK(found.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK(found.end == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}
void check_allowed(const outcome& found, const std::string& shape) {
  CHECK(found.call == CUDA_SUCCESS);
  CHECK(found.status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(found.end == CUDA_SUCCESS);
  CHECK(found.shape == shape);
}

}  // namespace

TEST_CASE("captured work runs when its graph is launched, and not before") {
  graph_fixture with;
  with.begin(with.one);
  CHECK(with.status(with.one) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  REQUIRE_OK(driver(cuMemsetD32Async)(with.word, 5, 1, with.one));
  REQUIRE_OK(with.count(with.one, 3));
  static std::atomic<int> calls{0};
  calls = 0;
  REQUIRE_OK(driver(cuLaunchHostFunc)(
      with.one, [](void*) { ++calls; }, nullptr));
  REQUIRE_OK(driver(cuMemcpyDtoDAsync_v2)(with.word + 4, with.word, 4, with.one));
  const CUgraph graph = with.end(with.one);
  CHECK(with.shape(graph) == "2 0 3 1 | 0-1 1-2 2-3");
  CHECK(with.counted() == 0);
  CHECK(calls == 0);
  const CUgraphExec exec = with.instance(graph);
  REQUIRE_OK(driver(cuGraphDestroy)(graph));
  for (int round = 1; round <= 3; ++round) {
    with.run(exec);
    CHECK(host_copy<int>(with.word, 2) == std::vector<int>{8, 8});
    CHECK(calls == round);
  }
  REQUIRE_OK(driver(cuGraphExecDestroy)(exec));
}

TEST_CASE("a capture begins on a stream that is not the legacy one, and once") {
  graph_fixture with;
  CHECK_CODE(driver(cuStreamBeginCapture_v2)(nullptr, global),
             CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_CODE(driver(cuStreamBeginCapture_v2)(CU_STREAM_LEGACY, global),
             CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_CODE(driver(cuStreamBeginCapture_v2)(with.one, static_cast<CUstreamCaptureMode>(7)),
             CUDA_ERROR_INVALID_VALUE);
  CUgraph graph = nullptr;
  CHECK_CODE(driver(cuStreamEndCapture)(with.one, &graph), CUDA_ERROR_ILLEGAL_STATE);
  with.begin(with.one);
  CHECK_CODE(driver(cuStreamBeginCapture_v2)(with.one, global), CUDA_ERROR_ILLEGAL_STATE);
  CHECK(with.status(with.one) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  REQUIRE_OK(driver(cuStreamEndCapture)(with.one, nullptr));
  CHECK(with.status(with.one) == CU_STREAM_CAPTURE_STATUS_NONE);
  with.begin(CU_STREAM_PER_THREAD);
  CHECK(with.status(CU_STREAM_PER_THREAD) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUstreamCaptureStatus status{};
  CHECK_CODE(driver(cuStreamIsCapturing)(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK_CODE(with.count(nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(with.status(CU_STREAM_PER_THREAD) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK_CODE(with.count(CU_STREAM_PER_THREAD), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK_CODE(driver(cuStreamEndCapture)(CU_STREAM_PER_THREAD, &graph),
             CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE("unsafe calls are prohibited as the modes say") {
  graph_fixture with;
  CUdeviceptr memory = 0;
  const auto allocate = [&] { return driver(cuMemAlloc_v2)(&memory, 16); };
  check_refused(in_capture(with, global, with.one, allocate),
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  check_refused(in_capture(with, thread_local_mode, with.one, allocate),
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  check_allowed(in_capture(with, relaxed, with.one, allocate), "0 |");

  const auto elsewhere = [&] {
    CUresult code{};
    std::thread([&] {
      driver(cuCtxSetCurrent)(with.context.handle);
      code = allocate();
    }).join();
    return code;
  };
  check_refused(in_capture(with, global, with.one, elsewhere),
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  check_allowed(in_capture(with, thread_local_mode, with.one, elsewhere), "0 |");

  CUstreamCaptureMode mode = relaxed;
  REQUIRE_OK(driver(cuThreadExchangeStreamCaptureMode)(&mode));
  CHECK(mode == global);
  check_allowed(in_capture(with, global, with.one, allocate), "0 |");
  REQUIRE_OK(driver(cuThreadExchangeStreamCaptureMode)(&mode));
  CHECK(mode == relaxed);

  // Synchronising copies are no unsafe calls, as long as the legacy stream is not involved.
  const auto copy = [&] { return driver(cuMemcpyDtoD_v2)(with.word, with.word + 8, 4); };
  check_allowed(in_capture(with, global, with.one, copy), "0 |");
  check_refused(in_capture(with, relaxed, with.blocking, copy), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

TEST_CASE("which calls are unsafe is what the real driver says") {
  graph_fixture with;
  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR wanted{16, 16, CU_AD_FORMAT_FLOAT, 1};
  CUmemoryPool pool = nullptr;
  REQUIRE_OK(driver(cuDeviceGetDefaultMemPool)(&pool, 0));
  cuuint64_t threshold = 0;
  const auto refused = [&](auto call) {
    check_refused(in_capture(with, global, with.one, call), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  };
  refused([&] { return driver(cuArrayCreate_v2)(&array, &wanted); });
  refused([&] {
    return driver(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  });
  refused([&] { return driver(cuDeviceSetMemPool)(0, pool); });
  refused([&] { return driver(cuCtxSetCacheConfig)(CU_FUNC_CACHE_PREFER_L1); });
  CUdeviceptr base = 0;
  size_t bytes = 0;
  check_allowed(
      in_capture(with, global, with.one,
                 [&] { return driver(cuMemGetAddressRange_v2)(&base, &bytes, with.word); }),
      "0 |");
  check_allowed(in_capture(with, global, with.one,
                           [&] { return driver(cuMemAddressReserve)(&base, 2 << 20, 0, 0, 0); }),
                "0 |");
}

TEST_CASE("what would wait for a capturing stream is prohibited in every mode") {
  graph_fixture with;
  for (const auto mode : {global, relaxed}) {
    const auto refused = [&](auto call) {
      check_refused(in_capture(with, mode, with.one, call), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    };
    refused([&] { return driver(cuStreamSynchronize)(with.one); });
    refused([&] { return driver(cuStreamQuery)(with.one); });
    refused([&] { return driver(cuCtxSynchronize)(); });
    refused([&] { return driver(cuCtxRecordEvent)(with.context.handle, with.mark); });
    refused([&] {
      return driver(cuStreamAddCallback)(
          with.one, [](CUstream, CUresult, void*) {}, nullptr, 0);
    });
  }
  const auto query_other = [&] { return driver(cuStreamQuery)(with.two); };
  check_refused(in_capture(with, global, with.one, query_other),
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  check_allowed(in_capture(with, relaxed, with.one, query_other), "0 |");
}

TEST_CASE("events carry a capture to other streams and back") {
  graph_fixture with;
  const auto fork_and_join = [&] {
    REQUIRE_OK(driver(cuEventRecord)(with.mark, with.one));
    REQUIRE_OK(driver(cuStreamWaitEvent)(with.two, with.mark, 0));
    CHECK(with.status(with.two) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    REQUIRE_OK(with.count(with.two));
    REQUIRE_OK(with.count(with.one));
    REQUIRE_OK(driver(cuEventRecord)(with.other_mark, with.two));
    REQUIRE_OK(driver(cuStreamWaitEvent)(with.one, with.other_mark, 0));
    return with.count(with.one);
  };
  check_allowed(in_capture(with, global, with.one, fork_and_join), "0 0 0 0 | 0-1 0-2 1-3 2-3");
  CHECK(with.status(with.two) == CU_STREAM_CAPTURE_STATUS_NONE);

  const auto only_wait = [&] {
    REQUIRE_OK(driver(cuEventRecord)(with.mark, with.one));
    return driver(cuStreamWaitEvent)(with.two, with.mark, 0);
  };
  check_allowed(in_capture(with, global, with.one, only_wait), "0 |");
  const auto unjoined = [&] {
    only_wait();
    return with.count(with.two);
  };
  auto found = in_capture(with, global, with.one, unjoined);
  CHECK(found.end == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  CHECK(with.status(with.two) == CU_STREAM_CAPTURE_STATUS_NONE);

  const auto end_on_other = [&] {
    unjoined();
    CUgraph graph = nullptr;
    return driver(cuStreamEndCapture)(with.two, &graph);
  };
  check_refused(in_capture(with, global, with.one, end_on_other),
                CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
}

TEST_CASE("captured events answer no questions, and captures keep apart") {
  graph_fixture with;
  REQUIRE_OK(driver(cuEventRecord)(with.other_mark, with.two));
  REQUIRE_OK(driver(cuEventSynchronize)(with.other_mark));
  for (const auto mode : {global, relaxed}) {
    check_refused(in_capture(with, mode, with.one,
                             [&] {
                               REQUIRE_OK(driver(cuEventRecord)(with.mark, with.one));
                               return driver(cuEventQuery)(with.mark);
                             }),
                  CUDA_ERROR_CAPTURED_EVENT);
  }
  check_refused(in_capture(with, global, with.one,
                           [&] { return driver(cuStreamWaitEvent)(with.one, with.other_mark, 0); }),
                CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  CUevent never = nullptr;
  REQUIRE_OK(driver(cuEventCreate)(&never, 0));
  check_allowed(in_capture(with, global, with.one,
                           [&] { return driver(cuStreamWaitEvent)(with.one, never, 0); }),
                "0 |");
  check_allowed(in_capture(with, global, with.one,
                           [&] {
                             return driver(cuStreamWaitEvent)(with.one, with.other_mark,
                                                              CU_EVENT_WAIT_EXTERNAL);
                           }),
                "0 6 | 0-1");
  check_allowed(in_capture(with, global, with.one,
                           [&] {
                             return driver(cuEventRecordWithFlags)(with.mark, with.one,
                                                                   CU_EVENT_RECORD_EXTERNAL);
                           }),
                "0 7 | 0-1");

  const auto merge = [&] {
    with.begin(with.two);
    REQUIRE_OK(with.count(with.two));
    REQUIRE_OK(driver(cuEventRecord)(with.mark, with.two));
    return driver(cuStreamWaitEvent)(with.one, with.mark, 0);
  };
  check_refused(in_capture(with, global, with.one, merge), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  CHECK(with.status(with.two) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CUgraph graph = nullptr;
  CHECK_CODE(driver(cuStreamEndCapture)(with.two, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  // After its capture the event stands for nothing, until it is recorded again.
  CHECK_CODE(driver(cuEventQuery)(with.mark), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuStreamWaitEvent)(with.two, with.mark, 0), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuEventRecord)(with.mark, with.two));
  REQUIRE_OK(driver(cuEventSynchronize)(with.mark));
}

TEST_CASE("a capture is ended by the thread that began it, unless it is relaxed") {
  graph_fixture with;
  const auto end_elsewhere = [&] {
    CUresult code{};
    std::thread([&] {
      driver(cuCtxSetCurrent)(with.context.handle);
      CUgraph graph = nullptr;
      code = driver(cuStreamEndCapture)(with.one, &graph);
    }).join();
    return code;
  };
  with.begin(with.one);
  CHECK_CODE(end_elsewhere(), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  CHECK(with.status(with.one) == CU_STREAM_CAPTURE_STATUS_NONE);
  with.begin(with.one, relaxed);
  CHECK_CODE(end_elsewhere(), CUDA_SUCCESS);
}

TEST_CASE("the state of a capture can be read and its dependencies changed") {
  graph_fixture with;
  CUstreamCaptureStatus status{};
  cuuint64_t id = 77;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  size_t count = 9;
  REQUIRE_OK(driver(cuStreamGetCaptureInfo_v2)(with.one, &status, &id, &graph, &nodes, &count));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK((id == 77 && count == 9));
  CHECK_CODE(driver(cuStreamUpdateCaptureDependencies)(with.one, nullptr, 0, 0),
             CUDA_ERROR_ILLEGAL_STATE);
  with.begin(with.one);
  REQUIRE_OK(driver(cuStreamGetCaptureInfo_v2)(with.one, &status, &id, &graph, &nodes, &count));
  CHECK((status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 0 && graph != nullptr));
  REQUIRE_OK(with.count(with.one));
  const CUgraphEdgeData* data = nullptr;
  REQUIRE_OK(
      driver(cuStreamGetCaptureInfo_v3)(with.one, &status, &id, &graph, &nodes, &data, &count));
  REQUIRE(count == 1);
  const CUgraphNode added = with.kernel_node(graph, {nodes[0]}, 1);
  CUgraphNode wanted = added;
  REQUIRE_OK(driver(cuStreamUpdateCaptureDependencies)(with.one, &wanted, 1,
                                                       CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  REQUIRE_OK(with.count(with.one));
  CHECK_CODE(driver(cuStreamUpdateCaptureDependencies)(with.one, nullptr, 0, 7),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuGraphDestroy)(graph), CUDA_ERROR_ILLEGAL_STATE);
  CHECK_CODE(driver(cuGraphDestroyNode)(added), CUDA_ERROR_ILLEGAL_STATE);
  CHECK(with.end(with.one) == graph);
  CHECK(with.shape(graph) == "0 0 0 | 0-1 1-2");
}

TEST_CASE("a capture may add to a graph that exists") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  const CUgraphNode first = with.kernel_node(graph, {}, 1);
  REQUIRE_OK(driver(cuStreamBeginCaptureToGraph)(with.one, graph, &first, nullptr, 1, global));
  REQUIRE_OK(with.count(with.one));
  CHECK_CODE(driver(cuStreamBeginCaptureToGraph)(with.two, graph, nullptr, nullptr, 0, global),
             CUDA_ERROR_ILLEGAL_STATE);
  CHECK(with.end(with.one) == graph);
  CHECK(with.shape(graph) == "0 0 | 0-1");
  with.run(graph);
  CHECK(with.counted() == 2);
}

TEST_CASE("a failed capture takes the graph that it added to with it") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  REQUIRE_OK(driver(cuStreamBeginCaptureToGraph)(with.one, graph, nullptr, nullptr, 0, relaxed));
  CHECK_CODE(driver(cuStreamSynchronize)(with.one), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph ended = graph;
  CHECK_CODE(driver(cuStreamEndCapture)(with.one, &ended), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(ended == nullptr);
  size_t count = 0;
  CHECK_CODE(driver(cuGraphGetNodes)(graph, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a capturing stream tells some of its properties, as the real driver does") {
  graph_fixture with;
  unsigned flags = 0;
  unsigned long long id = 0;
  int priority = 0;
  check_refused(in_capture(with, relaxed, with.one,
                           [&] { return driver(cuStreamGetFlags)(with.one, &flags); }),
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  check_refused(
      in_capture(with, global, with.one, [&] { return driver(cuStreamGetId)(with.one, &id); }),
      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  check_allowed(in_capture(with, global, with.one,
                           [&] { return driver(cuStreamGetPriority)(with.one, &priority); }),
                "0 |");
}

TEST_CASE("stream-ordered allocations become nodes") {
  graph_fixture with;
  with.begin(with.one);
  CUdeviceptr memory = 0;
  REQUIRE_OK(driver(cuMemAllocAsync)(&memory, 64, with.one));
  REQUIRE_OK(driver(cuMemsetD32Async)(memory, 6, 1, with.one));
  REQUIRE_OK(driver(cuMemcpyDtoDAsync_v2)(with.word, memory, 4, with.one));
  CHECK_CODE(driver(cuMemFreeAsync)(with.word, with.one), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuMemFreeAsync)(memory, with.one));
  const CUgraph graph = with.end(with.one);
  CHECK(with.shape(graph) == "10 2 1 11 | 0-1 1-2 2-3");
  const auto exec = with.instance(graph);
  with.run(exec);
  with.run(exec);
  CHECK(with.counted() == 6);
  CHECK_CODE(driver(cuMemFree_v2)(memory), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a launch that may begin early is captured with such an edge") {
  graph_fixture with;
  with.begin(with.one);
  REQUIRE_OK(with.count(with.one));
  int times = 1;
  void* arguments[] = {&with.word, &times};
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  const CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, with.one, &attribute, 1};
  REQUIRE_OK(driver(cuLaunchKernelEx)(&config, with.count_up, arguments, nullptr));
  const CUgraph graph = with.end(with.one);
  CUgraphNode from = nullptr, to = nullptr;
  CUgraphEdgeData data{};
  size_t count = 1;
  REQUIRE_OK(driver(cuGraphGetEdges_v2)(graph, &from, &to, &data, &count));
  CHECK((data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC &&
         data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC));
  with.run(graph);
  CHECK(with.counted() == 2);
}

TEST_CASE("destroying a capturing stream or its context ends the capture") {
  graph_fixture with;
  with.begin(with.one);
  REQUIRE_OK(with.count(with.one));
  REQUIRE_OK(driver(cuStreamDestroy_v2)(with.one));
  CUdeviceptr memory = 0;
  CHECK_CODE(driver(cuMemAlloc_v2)(&memory, 16), CUDA_SUCCESS);
  {
    test_context inner;
    CUstream stream = nullptr;
    REQUIRE_OK(driver(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    with.begin(stream);
  }
  REQUIRE_OK(driver(cuCtxSetCurrent)(with.context.handle));
  CHECK_CODE(driver(cuMemAlloc_v2)(&memory, 16), CUDA_SUCCESS);
}
