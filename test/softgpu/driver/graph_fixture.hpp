// SPDX-License-Identifier: Apache-2.0
// What the tests of captures and graphs share.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "driver.hpp"

// A context with streams, events and a kernel that counts up a device word.
class graph_fixture {
 public:
  graph_fixture() {
    count_up = module.function("count_up");
    word = device_array<int>({0, 0, 0, 0});
    for (CUstream* stream : {&one, &two})
      REQUIRE_OK(driver(cuStreamCreate)(stream, CU_STREAM_NON_BLOCKING));
    REQUIRE_OK(driver(cuStreamCreate)(&blocking, CU_STREAM_DEFAULT));
    for (CUevent* event : {&mark, &other_mark}) REQUIRE_OK(driver(cuEventCreate)(event, 0));
  }

  CUresult count(CUstream stream, int times = 1) {
    return launch(count_up, 1, 1, stream, word, times);
  }
  int counted() { return host_copy<int>(word, 1)[0]; }

  CUstreamCaptureStatus status(CUstream stream) {
    auto found = static_cast<CUstreamCaptureStatus>(99);
    REQUIRE_OK(driver(cuStreamIsCapturing)(stream, &found));
    return found;
  }

  void begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    REQUIRE_OK(driver(cuStreamBeginCapture_v2)(stream, mode));
  }
  CUgraph end(CUstream stream) {
    CUgraph graph = nullptr;
    REQUIRE_OK(driver(cuStreamEndCapture)(stream, &graph));
    REQUIRE(graph != nullptr);
    return graph;
  }

  CUgraphNode kernel_node(CUgraph graph, std::vector<CUgraphNode> after, int times,
                          CUdeviceptr at = 0) {
    CUdeviceptr target = at != 0 ? at : word;
    void* arguments[] = {&target, &times};
    CUDA_KERNEL_NODE_PARAMS parameters{};
    parameters.func = count_up;
    parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
    parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
    parameters.kernelParams = arguments;
    CUgraphNode node = nullptr;
    REQUIRE_OK(
        driver(cuGraphAddKernelNode_v2)(&node, graph, after.data(), after.size(), &parameters));
    return node;
  }

  CUgraphExec instance(CUgraph graph, unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    REQUIRE_OK(driver(cuGraphInstantiateWithFlags)(&exec, graph, flags));
    return exec;
  }
  void run(CUgraphExec exec) {
    REQUIRE_OK(driver(cuGraphLaunch)(exec, one));
    REQUIRE_OK(driver(cuStreamSynchronize)(one));
  }
  // Of a new graph: run once.
  void run(CUgraph graph) {
    auto exec = instance(graph);
    run(exec);
    REQUIRE_OK(driver(cuGraphExecDestroy)(exec));
  }

  // Types of the nodes and their edges, by order of creation: "0 0 3 | 0-1 1-2".
  static std::string shape(CUgraph graph) {
    std::size_t nodes = 0, edges = 0;
    REQUIRE_OK(driver(cuGraphGetNodes)(graph, nullptr, &nodes));
    std::vector<CUgraphNode> all(nodes);
    REQUIRE_OK(driver(cuGraphGetNodes)(graph, all.data(), &nodes));
    std::map<CUgraphNode, std::size_t> number;
    std::string text;
    for (std::size_t at = 0; at < nodes; ++at) {
      number[all[at]] = at;
      CUgraphNodeType type{};
      REQUIRE_OK(driver(cuGraphNodeGetType)(all[at], &type));
      text += std::to_string(static_cast<int>(type)) + " ";
    }
    text += "|";
    REQUIRE_OK(driver(cuGraphGetEdges_v2)(graph, nullptr, nullptr, nullptr, &edges));
    std::vector<CUgraphNode> from(edges), to(edges);
    std::vector<CUgraphEdgeData> data(edges);
    REQUIRE_OK(driver(cuGraphGetEdges_v2)(graph, from.data(), to.data(), data.data(), &edges));
    for (std::size_t at = 0; at < edges; ++at)
      text += " " + std::to_string(number[from[at]]) + "-" + std::to_string(number[to[at]]);
    return text;
  }

  static CUgraph make_graph() {
    CUgraph graph = nullptr;
    REQUIRE_OK(driver(cuGraphCreate)(&graph, 0));
    return graph;
  }

  test_context context;
  test_module module;
  CUfunction count_up = nullptr;
  CUdeviceptr word = 0;
  CUstream one = nullptr, two = nullptr, blocking = nullptr;
  CUevent mark = nullptr, other_mark = nullptr;
};
