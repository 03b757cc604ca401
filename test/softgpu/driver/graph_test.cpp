// SPDX-License-Identifier: Apache-2.0
// Graphs that are built node by node.
#include "graph_fixture.hpp"

TEST_CASE("nodes and edges are listed as they were added") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  const auto a = with.kernel_node(graph, {}, 1), b = with.kernel_node(graph, {a}, 1),
             c = with.kernel_node(graph, {a}, 1);
  CUgraphNode join = nullptr;
  const CUgraphNode both[] = {b, c};
  REQUIRE_OK(driver(cuGraphAddEmptyNode)(&join, graph, both, 2));
  CHECK(with.shape(graph) == "0 0 0 5 | 0-1 0-2 1-3 2-3");
  CUgraphNode list[4] = {join, join, join, join};
  size_t count = 4;
  REQUIRE_OK(driver(cuGraphGetRootNodes)(graph, list, &count));
  CHECK((count == 1 && list[0] == a && list[1] == nullptr));
  count = 1;
  REQUIRE_OK(driver(cuGraphNodeGetDependencies)(join, list, &count));
  CHECK((count == 1 && list[0] == b));
  count = 4;
  REQUIRE_OK(driver(cuGraphNodeGetDependentNodes)(a, list, &count));
  CHECK((count == 2 && list[0] == b && list[1] == c));
  REQUIRE_OK(driver(cuGraphDestroyNode)(b));
  CHECK(with.shape(graph) == "0 0 5 | 0-1 1-2");
  CUgraphNodeType type{};
  CHECK_CODE(driver(cuGraphNodeGetType)(b, &type), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuGraphDestroy)(graph));
  CHECK_CODE(driver(cuGraphNodeGetType)(a, &type), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuGraphDestroy)(graph), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("edges are added and removed, with their data") {
  graph_fixture with;
  const CUgraph graph = with.make_graph(), other = with.make_graph();
  const auto a = with.kernel_node(graph, {}, 1), b = with.kernel_node(graph, {}, 1),
             foreign = with.kernel_node(other, {}, 1);
  CHECK_CODE(driver(cuGraphAddDependencies)(graph, &a, &foreign, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuGraphAddDependencies)(graph, &a, &a, 1), CUDA_ERROR_INVALID_VALUE);
  CUgraphEdgeData data{};
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  REQUIRE_OK(driver(cuGraphAddDependencies_v2)(graph, &a, &b, &data, 1));
  CHECK_CODE(driver(cuGraphAddDependencies)(graph, &a, &b, 1), CUDA_ERROR_INVALID_VALUE);
  CUgraphNode node = nullptr;
  size_t count = 1;
  CHECK_CODE(driver(cuGraphNodeGetDependencies)(b, &node, &count), CUDA_ERROR_LOSSY_QUERY);
  CUgraphEdgeData seen{};
  REQUIRE_OK(driver(cuGraphNodeGetDependencies_v2)(b, &node, &seen, &count));
  CHECK((node == a && seen.from_port == data.from_port && seen.type == data.type));
  REQUIRE_OK(driver(cuGraphRemoveDependencies_v2)(graph, &a, &b, &data, 1));
  CHECK(with.shape(graph) == "0 0 |");
  REQUIRE_OK(driver(cuGraphAddDependencies)(graph, &a, &b, 1));
  REQUIRE_OK(driver(cuGraphAddDependencies)(graph, &b, &a, 1));
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  CHECK_CODE(driver(cuGraphInstantiateWithParams)(&exec, graph, &parameters),
             CUDA_ERROR_INVALID_VALUE);
  CHECK(parameters.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
}

TEST_CASE("kernel nodes give their parameters back and take new ones") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  const auto node = with.kernel_node(graph, {}, 4);
  CUDA_KERNEL_NODE_PARAMS parameters{};
  REQUIRE_OK(driver(cuGraphKernelNodeGetParams_v2)(node, &parameters));
  CHECK((parameters.func == with.count_up && parameters.blockDimX == 1 &&
         parameters.ctx == with.context.handle));
  CHECK(*static_cast<CUdeviceptr*>(parameters.kernelParams[0]) == with.word);
  CHECK(*static_cast<int*>(parameters.kernelParams[1]) == 4);
  int times = 6;
  void* arguments[] = {parameters.kernelParams[0], &times};
  parameters.kernelParams = arguments;
  REQUIRE_OK(driver(cuGraphKernelNodeSetParams_v2)(node, &parameters));
  with.run(graph);
  CHECK(with.counted() == 6);
  CUDA_MEMSET_NODE_PARAMS wrong{};
  CHECK_CODE(driver(cuGraphMemsetNodeGetParams)(node, &wrong), CUDA_ERROR_INVALID_VALUE);
  parameters.blockDimX = 5000;
  CHECK_CODE(driver(cuGraphKernelNodeSetParams_v2)(node, &parameters), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("fills, copies, events and values are nodes too") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  CUgraphNode fill = nullptr, copy = nullptr, record = nullptr, wait = nullptr, batch = nullptr;
  CUDA_MEMSET_NODE_PARAMS memset{with.word, 0, 7, 4, 2, 1};
  REQUIRE_OK(driver(cuGraphAddMemsetNode)(&fill, graph, nullptr, 0, &memset, with.context.handle));
  int result[2] = {0, 0};
  CUDA_MEMCPY3D memcpy{};
  memcpy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  memcpy.srcDevice = with.word;
  memcpy.dstMemoryType = CU_MEMORYTYPE_HOST;
  memcpy.dstHost = result;
  memcpy.WidthInBytes = 8;
  memcpy.Height = memcpy.Depth = 1;
  REQUIRE_OK(driver(cuGraphAddMemcpyNode)(&copy, graph, &fill, 1, &memcpy, with.context.handle));
  REQUIRE_OK(driver(cuGraphAddEventRecordNode)(&record, graph, &copy, 1, with.mark));
  REQUIRE_OK(driver(cuGraphAddEventWaitNode)(&wait, graph, &record, 1, with.other_mark));
  CUstreamBatchMemOpParams one{};
  one.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  one.writeValue.address = with.word + 8;
  one.writeValue.value = 9;
  CUDA_BATCH_MEM_OP_NODE_PARAMS operations{with.context.handle, 1, &one, 0};
  REQUIRE_OK(driver(cuGraphAddBatchMemOpNode)(&batch, graph, &wait, 1, &operations));
  with.run(graph);
  CHECK((result[0] == 7 && result[1] == 7));
  CHECK(host_copy<int>(with.word, 3)[2] == 9);
  CHECK_CODE(driver(cuEventQuery)(with.mark), CUDA_SUCCESS);
  CUevent event = nullptr;
  REQUIRE_OK(driver(cuGraphEventRecordNodeGetEvent)(record, &event));
  CHECK(event == with.mark);
  CUDA_BATCH_MEM_OP_NODE_PARAMS seen{};
  REQUIRE_OK(driver(cuGraphBatchMemOpNodeGetParams)(batch, &seen));
  CHECK((seen.count == 1 && seen.paramArray[0].writeValue.value == 9));
  memset.elementSize = 3;
  CHECK_CODE(driver(cuGraphMemsetNodeSetParams)(fill, &memset), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("clones are independent, and their nodes can be found") {
  graph_fixture with;
  const CUgraph graph = with.make_graph(), outer = with.make_graph();
  const auto a = with.kernel_node(graph, {}, 1), b = with.kernel_node(graph, {a}, 2);
  CUgraph clone = nullptr;
  REQUIRE_OK(driver(cuGraphClone)(&clone, graph));
  CUgraphNode found = nullptr;
  REQUIRE_OK(driver(cuGraphNodeFindInClone)(&found, b, clone));
  CHECK((found != b && found != nullptr));
  CHECK_CODE(driver(cuGraphNodeFindInClone)(&found, found, clone), CUDA_ERROR_INVALID_VALUE);
  CUgraphNode child = nullptr;
  REQUIRE_OK(driver(cuGraphAddChildGraphNode)(&child, outer, nullptr, 0, clone));
  CUgraph inside = nullptr;
  REQUIRE_OK(driver(cuGraphChildGraphNodeGetGraph)(child, &inside));
  CHECK((inside != clone && inside != nullptr));
  CHECK(with.shape(inside) == "0 0 | 0-1");
  CHECK_CODE(driver(cuGraphDestroy)(inside), CUDA_ERROR_INVALID_VALUE);
  with.kernel_node(inside, {}, 10);
  REQUIRE_OK(driver(cuGraphDestroy)(graph));
  REQUIRE_OK(driver(cuGraphDestroy)(clone));
  with.run(outer);
  CHECK(with.counted() == 13);
}
