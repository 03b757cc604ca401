// SPDX-License-Identifier: Apache-2.0
// Conditional nodes, memory nodes, user objects, attributes of nodes.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "graph_fixture.hpp"
#include "hopper.hpp"

namespace {

CUgraphNodeParams conditional(CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                              unsigned size, CUcontext context) {
  CUgraphNodeParams made{};
  made.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  made.conditional.handle = handle;
  made.conditional.type = type;
  made.conditional.size = size;
  made.conditional.ctx = context;
  return made;
}

CUgraphNode add_kernel(CUgraph graph, CUfunction function, void** arguments,
                       const CUgraphNode* after = nullptr) {
  CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.func = function;
  parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = arguments;
  CUgraphNode node = nullptr;
  REQUIRE_OK(driver(cuGraphAddKernelNode_v2)(&node, graph, after, after ? 1 : 0, &parameters));
  return node;
}

cuuint64_t graph_memory(CUgraphMem_attribute attribute) {
  cuuint64_t value = 0;
  REQUIRE_OK(driver(cuDeviceGetGraphMemAttribute)(0, attribute, &value));
  return value;
}

CUDA_MEM_ALLOC_NODE_PARAMS allocation(std::size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS made{};
  made.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  made.bytesize = bytes;
  return made;
}

}  // namespace

TEST_CASE("a body is repeated while a kernel says so") {
  graph_fixture with;
  hopper_module hopper;
  const CUgraph graph = with.make_graph();
  CUgraphConditionalHandle handle = 0;
  CHECK_CODE(driver(cuGraphConditionalHandleCreate)(&handle, graph, with.context.handle, 1, 2),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuGraphConditionalHandleCreate)(&handle, graph, with.context.handle, 1,
                                                    CU_GRAPH_COND_ASSIGN_DEFAULT));
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS instantiate{};
  CHECK_CODE(driver(cuGraphInstantiateWithParams)(&exec, graph, &instantiate),
             CUDA_ERROR_INVALID_VALUE);
  CHECK(instantiate.result_out == CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
  CUgraphNode node = nullptr;
  auto wrong = conditional(handle, CU_GRAPH_COND_TYPE_WHILE, 2, with.context.handle);
  CHECK_CODE(driver(cuGraphAddNode_v2)(&node, graph, nullptr, nullptr, 0, &wrong),
             CUDA_ERROR_INVALID_VALUE);
  auto loop = conditional(handle, CU_GRAPH_COND_TYPE_WHILE, 1, with.context.handle);
  REQUIRE_OK(driver(cuGraphAddNode_v2)(&node, graph, nullptr, nullptr, 0, &loop));
  const CUgraph body = loop.conditional.phGraph_out[0];
  int limit = 5;
  void* arguments[] = {&handle, &with.word, &limit};
  add_kernel(body, hopper.function("count_and_decide"), arguments);
  exec = with.instance(graph);
  with.run(exec);
  CHECK(with.counted() == 5);
  with.run(exec);
  CHECK(with.counted() == 6);
  CUgraph copy = nullptr;
  CHECK_CODE(driver(cuGraphClone)(&copy, graph), CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(driver(cuGraphInstantiateWithFlags)(&exec, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(driver(cuGraphDestroy)(body), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("if, else and switch choose a body") {
  graph_fixture with;
  hopper_module hopper;
  for (const unsigned value : {0u, 1u, 2u, 7u}) {
    for (const bool choice : {false, true}) {
      const CUgraph graph = with.make_graph();
      CUgraphConditionalHandle handle = 0;
      REQUIRE_OK(driver(cuGraphConditionalHandleCreate)(&handle, graph, with.context.handle, 0, 0));
      unsigned wanted = value;
      void* arguments[] = {&handle, &wanted};
      const auto first = add_kernel(graph, hopper.function("decide"), arguments);
      auto parameters =
          conditional(handle, choice ? CU_GRAPH_COND_TYPE_SWITCH : CU_GRAPH_COND_TYPE_IF,
                      choice ? 3 : 2, with.context.handle);
      CUgraphNode node = nullptr;
      REQUIRE_OK(driver(cuGraphAddNode_v2)(&node, graph, &first, nullptr, 1, &parameters));
      for (unsigned body = 0; body < parameters.conditional.size; ++body) {
        int amount = 1 << body;
        void* add[] = {&with.word, &amount};
        add_kernel(parameters.conditional.phGraph_out[body], hopper.function("add"), add);
      }
      REQUIRE_OK(driver(cuMemsetD32_v2)(with.word, 0, 1));
      with.run(graph);
      INFO(value << " " << choice);
      CHECK(with.counted() == (choice ? (value < 3 ? 1 << value : 0) : (value != 0 ? 1 : 2)));
    }
  }
}

TEST_CASE("a body with a host function is not instantiated") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  CUgraphConditionalHandle handle = 0;
  REQUIRE_OK(driver(cuGraphConditionalHandleCreate)(&handle, graph, with.context.handle, 1, 1));
  auto parameters = conditional(handle, CU_GRAPH_COND_TYPE_IF, 1, with.context.handle);
  CUgraphNode node = nullptr, host = nullptr;
  REQUIRE_OK(driver(cuGraphAddNode_v2)(&node, graph, nullptr, nullptr, 0, &parameters));
  CUDA_HOST_NODE_PARAMS function{[](void*) {}, nullptr};
  REQUIRE_OK(driver(cuGraphAddHostNode)(&host, parameters.conditional.phGraph_out[0], nullptr, 0,
                                        &function));
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS instantiate{};
  CHECK_CODE(driver(cuGraphInstantiateWithParams)(&exec, graph, &instantiate),
             CUDA_ERROR_INVALID_VALUE);
  CHECK(instantiate.result_out == CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
  CHECK(instantiate.hErrNode_out == host);
}

TEST_CASE("memory of a graph comes and goes with its launches") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  auto parameters = allocation(1000);
  CUgraphNode node = nullptr, fill = nullptr;
  REQUIRE_OK(driver(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &parameters));
  const CUdeviceptr memory = parameters.dptr;
  CUDA_MEMSET_NODE_PARAMS memset{memory, 0, 9, 4, 4, 1};
  REQUIRE_OK(driver(cuGraphAddMemsetNode)(&fill, graph, &node, 1, &memset, with.context.handle));
  CHECK_CODE(driver(cuGraphAddMemFreeNode)(&fill, graph, &fill, 1, with.word),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuGraphDestroyNode)(node), CUDA_ERROR_NOT_SUPPORTED);
  auto none = allocation(0);
  CHECK_CODE(driver(cuGraphAddMemAllocNode)(&fill, graph, nullptr, 0, &none),
             CUDA_ERROR_INVALID_VALUE);
  CUgraph copy = nullptr;
  CHECK_CODE(driver(cuGraphClone)(&copy, graph), CUDA_ERROR_NOT_SUPPORTED);
  auto exec = with.instance(graph);
  CHECK(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0);
  CHECK_CODE(driver(cuMemcpyDtoD_v2)(with.word, memory, 4), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuMemsetD8_v2)(memory + 8, 0, 4), CUDA_ERROR_INVALID_VALUE);
  with.run(exec);
  CHECK(host_copy<int>(memory, 4)[3] == 9);
  CHECK(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 32u << 20);
  CHECK_CODE(driver(cuGraphLaunch)(exec, with.one), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuMemFree_v2)(memory));
  CHECK_CODE(driver(cuMemFree_v2)(memory), CUDA_ERROR_INVALID_VALUE);
  with.run(exec);
  REQUIRE_OK(driver(cuGraphExecDestroy)(exec));
  exec = with.instance(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  with.run(exec);
  with.run(exec);
  REQUIRE_OK(driver(cuMemFreeAsync)(memory, with.one));
  REQUIRE_OK(driver(cuDeviceGraphMemTrim)(0));
  CHECK(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0);
  CHECK(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) == 32u << 20);
  cuuint64_t zero = 0;
  REQUIRE_OK(driver(cuDeviceSetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
  CHECK(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) == 0);
  REQUIRE_OK(driver(cuGraphExecDestroy)(exec));
  REQUIRE_OK(driver(cuGraphDestroy)(graph));
}

TEST_CASE("a user object lives as long as somebody refers to it") {
  graph_fixture with;
  static std::atomic<int> calls{0};
  calls = 0;
  const CUhostFn destroy = [](void*) { ++calls; };
  CUuserObject object = nullptr;
  CHECK_CODE(driver(cuUserObjectCreate)(&object, nullptr, destroy, 1, 0), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(
      driver(cuUserObjectCreate)(&object, nullptr, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  REQUIRE_OK(driver(cuUserObjectRetain)(object, 2));
  REQUIRE_OK(driver(cuUserObjectRelease)(object, 2));
  const CUgraph graph = with.make_graph();
  REQUIRE_OK(driver(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CUgraph clone = nullptr;
  REQUIRE_OK(driver(cuGraphClone)(&clone, graph));
  const auto exec = with.instance(clone);
  REQUIRE_OK(driver(cuGraphReleaseUserObject)(graph, object, 1));
  REQUIRE_OK(driver(cuGraphDestroy)(clone));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(calls == 0);
  REQUIRE_OK(driver(cuGraphExecDestroy)(exec));
  for (int wait = 0; wait < 1000 && calls == 0; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(calls == 1);
  CHECK_CODE(driver(cuUserObjectRetain)(object, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("attributes of kernel nodes are set, read and copied") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  const auto one = with.kernel_node(graph, {}, 1), two = with.kernel_node(graph, {}, 1);
  CUkernelNodeAttrValue value{};
  value.priority = -3;
  REQUIRE_OK(driver(cuGraphKernelNodeSetAttribute)(one, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  value.cooperative = 1;
  REQUIRE_OK(driver(cuGraphKernelNodeSetAttribute)(one, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  REQUIRE_OK(driver(cuGraphKernelNodeCopyAttributes)(two, one));
  value = {};
  REQUIRE_OK(driver(cuGraphKernelNodeGetAttribute)(two, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  CHECK(value.priority == -3);
  REQUIRE_OK(driver(cuGraphKernelNodeGetAttribute)(two, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  CHECK(value.cooperative == 1);
  CHECK_CODE(driver(cuGraphKernelNodeGetAttribute)(
                 one, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, &value),
             CUDA_ERROR_INVALID_VALUE);
  with.run(graph);
  CHECK(with.counted() == 2);
}

TEST_CASE("a graph is drawn into a file") {
  graph_fixture with;
  const CUgraph graph = with.make_graph();
  with.kernel_node(graph, {with.kernel_node(graph, {}, 1)}, 1);
  const std::string path = image_path("graph.dot");
  REQUIRE_OK(driver(cuGraphDebugDotPrint)(graph, path.c_str(), CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
  const auto text = read_image_bytes("graph.dot");
  const std::string drawn(text.begin(), text.end());
  CHECK(drawn.find("digraph dot {") == 0);
  CHECK(drawn.find("count_up") != std::string::npos);
  CHECK(drawn.find("->") != std::string::npos);
  CHECK_CODE(driver(cuGraphDebugDotPrint)(graph, "/nonexistent/x", 0), CUDA_ERROR_OPERATING_SYSTEM);
  CHECK_CODE(driver(cuGraphDebugDotPrint)(graph, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}
