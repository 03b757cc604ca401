// SPDX-License-Identifier: Apache-2.0
// Instances of graphs: launching and changing them.
#include <atomic>
#include <chrono>
#include <thread>

#include "graph_fixture.hpp"

namespace {

CUDA_KERNEL_NODE_PARAMS parameters_of(CUgraphNode node) {
  CUDA_KERNEL_NODE_PARAMS parameters{};
  REQUIRE_OK(driver(cuGraphKernelNodeGetParams_v2)(node, &parameters));
  return parameters;
}

}  // namespace

TEST_CASE("a launched graph takes its place in the stream") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  CUgraphNode host = nullptr;
  static std::atomic<bool> go{false};
  go = false;
  CUDA_HOST_NODE_PARAMS wait{[](void*) {
                               while (!go) std::this_thread::yield();
                             },
                             nullptr};
  const auto first = with.kernel_node(graph, {}, 1);
  REQUIRE_OK(driver(cuGraphAddHostNode)(&host, graph, &first, 1, &wait));
  CUgraphNode record = nullptr;
  REQUIRE_OK(driver(cuGraphAddEventRecordNode)(&record, graph, &host, 1, with.mark));
  with.kernel_node(graph, {record}, 1);
  const auto exec = with.instance(graph);
  REQUIRE_OK(driver(cuGraphLaunch)(exec, with.one));
  REQUIRE_OK(with.count(with.one, 10));
  // The event counts as recorded by the launch.
  REQUIRE_OK(driver(cuStreamWaitEvent)(with.two, with.mark, 0));
  REQUIRE_OK(driver(cuMemsetD32Async)(with.word + 4, 1, 1, with.two));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK_CODE(driver(cuEventQuery)(with.mark), CUDA_ERROR_NOT_READY);
  CHECK_CODE(driver(cuStreamQuery)(with.one), CUDA_ERROR_NOT_READY);
  CHECK_CODE(driver(cuStreamQuery)(with.two), CUDA_ERROR_NOT_READY);
  go = true;
  REQUIRE_OK(driver(cuCtxSynchronize)());
  CHECK(host_copy<int>(with.word, 2) == std::vector<int>{12, 1});
  CHECK_CODE(driver(cuEventQuery)(with.mark), CUDA_SUCCESS);
}

TEST_CASE("a graph of many nodes is one operation of its stream") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  CUgraphNode last = nullptr;
  CUDA_MEMSET_NODE_PARAMS memset{with.word, 0, 0, 4, 1, 1};
  for (unsigned at = 0; at < 2000; ++at) {
    memset.value = at;
    REQUIRE_OK(driver(cuGraphAddMemsetNode)(&last, graph, last ? &last : nullptr, last ? 1 : 0,
                                            &memset, with.context.handle));
  }
  const auto exec = with.instance(graph);
  const CUdeviceptr flag = with.word + 8;
  REQUIRE_OK(driver(cuStreamWaitValue32_v2)(with.one, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
  for (int round = 0; round < 3; ++round) REQUIRE_OK(driver(cuGraphLaunch)(exec, with.one));
  REQUIRE_OK(driver(cuStreamWriteValue32_v2)(with.two, flag, 1, 0));
  REQUIRE_OK(driver(cuStreamSynchronize)(with.one));
  CHECK(with.counted() == 1999);
}

TEST_CASE("launches of one instance in several streams do not overlap") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  CUgraphNode host = nullptr;
  static std::atomic<int> inside{0}, most{0};
  inside = most = 0;
  CUDA_HOST_NODE_PARAMS parameters{[](void*) {
                                     most = std::max(most.load(), ++inside);
                                     std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                     --inside;
                                   },
                                   nullptr};
  REQUIRE_OK(driver(cuGraphAddHostNode)(&host, graph, nullptr, 0, &parameters));
  const auto exec = with.instance(graph);
  for (int round = 0; round < 4; ++round) {
    REQUIRE_OK(driver(cuGraphLaunch)(exec, with.one));
    REQUIRE_OK(driver(cuGraphLaunch)(exec, with.two));
  }
  REQUIRE_OK(driver(cuGraphExecDestroy)(exec));
  CHECK_CODE(driver(cuGraphLaunch)(exec, with.one), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuCtxSynchronize)());
  CHECK(most == 1);
}

TEST_CASE("nodes of an instance are changed and switched off") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  const auto a = with.kernel_node(graph, {}, 1), b = with.kernel_node(graph, {a}, 10);
  CUgraphNode empty = nullptr;
  REQUIRE_OK(driver(cuGraphAddEmptyNode)(&empty, graph, nullptr, 0));
  const auto exec = with.instance(graph);
  auto parameters = parameters_of(a);
  int times = 3;
  void* arguments[] = {parameters.kernelParams[0], &times};
  parameters.kernelParams = arguments;
  REQUIRE_OK(driver(cuGraphExecKernelNodeSetParams_v2)(exec, a, &parameters));
  with.run(exec);
  CHECK(with.counted() == 13);
  REQUIRE_OK(driver(cuGraphNodeSetEnabled)(exec, b, 0));
  unsigned enabled = 7;
  REQUIRE_OK(driver(cuGraphNodeGetEnabled)(exec, b, &enabled));
  CHECK(enabled == 0);
  with.run(exec);
  CHECK(with.counted() == 16);
  CHECK_CODE(driver(cuGraphNodeSetEnabled)(exec, empty, 0), CUDA_ERROR_INVALID_VALUE);
  with.run(graph);
  CHECK(with.counted() == 27);
  cuuint64_t flags = 7;
  REQUIRE_OK(driver(cuGraphExecGetFlags)(exec, &flags));
  CHECK(flags == 0);
}

TEST_CASE("an instance becomes another graph of the same shape, or says why not") {
  graph_fixture with;
  const CUgraph graph = with.make_graph(), same = with.make_graph(), longer = with.make_graph(),
                typed = with.make_graph();
  with.kernel_node(graph, {with.kernel_node(graph, {}, 1)}, 1);
  with.kernel_node(same, {with.kernel_node(same, {}, 5)}, 6);
  with.kernel_node(longer, {with.kernel_node(longer, {with.kernel_node(longer, {}, 1)}, 1)}, 1);
  const auto first = with.kernel_node(typed, {}, 1);
  CUgraphNode empty = nullptr;
  REQUIRE_OK(driver(cuGraphAddEmptyNode)(&empty, typed, &first, 1));
  const auto exec = with.instance(graph);
  CUgraphExecUpdateResultInfo info{};
  CHECK_CODE(driver(cuGraphExecUpdate_v2)(exec, longer, &info),
             CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CHECK_CODE(driver(cuGraphExecUpdate_v2)(exec, typed, &info),
             CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK((info.result == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED && info.errorNode == empty));
  REQUIRE_OK(driver(cuGraphExecUpdate_v2)(exec, same, &info));
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
  with.run(exec);
  CHECK(with.counted() == 11);
}

TEST_CASE("a graph that touches freed memory breaks the context, not the process") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  const CUdeviceptr memory = device_array<int>(std::vector<int>(1000));
  CUgraphNode node = nullptr;
  CUDA_MEMSET_NODE_PARAMS memset{memory, 0, 1, 4, 1000, 1};
  REQUIRE_OK(driver(cuGraphAddMemsetNode)(&node, graph, nullptr, 0, &memset, with.context.handle));
  const auto exec = with.instance(graph);
  REQUIRE_OK(driver(cuMemFree_v2)(memory));
  REQUIRE_OK(driver(cuGraphLaunch)(exec, with.one));
  CHECK_CODE(driver(cuStreamSynchronize)(with.one), CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_CODE(with.count(with.one), CUDA_ERROR_ILLEGAL_ADDRESS);
}
