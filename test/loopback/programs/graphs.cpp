// SPDX-License-Identifier: Apache-2.0
// Graphs built by hand: every kind of node that needs no host, what the driver tells of them, edges, clones, updates. Prints
// results and return codes, the same on any machine.
#include <cstring>
#include <fstream>
#include <string>
#include <unistd.h>

#include "test/loopback/programs/common.hpp"

namespace {

void line(const char* what, CUresult result) {
  std::printf("%s: %d\n", what, static_cast<int>(result));
}

struct kernel_node {
  CUdeviceptr place;
  int value;
  void* pointers[2];
  CUDA_KERNEL_NODE_PARAMS parameters;

  kernel_node(const gpu& g, CUdeviceptr where, int what) : place(where), value(what), pointers{&place, &value}, parameters{} {
    parameters.func = g.store;
    parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
    parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
    parameters.kernelParams = pointers;
  }
};

void run(CUgraph graph, CUstream stream, CUdeviceptr place) {
  CUgraphExec exec;
  CHECK(cuMemsetD8(place, 0, 64));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(exec));
  int seen[16];
  CHECK(cuMemcpyDtoH(seen, place, sizeof(seen)));
  std::printf("ran:");
  for (int value : seen) std::printf(" %d", value);
  std::printf("\n");
}

CUDA_MEMCPY3D row(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = source;
  copy.dstDevice = destination;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUDA_MEMSET_NODE_PARAMS fill(CUdeviceptr destination, unsigned value, size_t count) {
  CUDA_MEMSET_NODE_PARAMS p{};
  p.dst = destination;
  p.value = value;
  p.elementSize = 4;
  p.width = count;
  p.height = 1;
  return p;
}

// Kernel, fill, copy and an empty node in a chain; what is read back of each is what was put in.
void four_kinds(const gpu& g, CUstream stream, CUdeviceptr place) {
  CUgraph graph;
  CHECK(cuGraphCreate(&graph, 0));
  line("flags that are none", cuGraphCreate(&graph, 1));
  kernel_node store(g, place, 11);
  CUgraphNode kernel, memset, copy, empty, last;
  CHECK(cuGraphAddKernelNode(&kernel, graph, nullptr, 0, &store.parameters));
  const auto fill_parameters = fill(place + 4, 22, 3);
  CHECK(cuGraphAddMemsetNode(&memset, graph, nullptr, 0, &fill_parameters, g.context));
  CUgraphNode both[] = {kernel, memset};
  CHECK(cuGraphAddEmptyNode(&empty, graph, both, 2));
  const auto copy_parameters = row(place + 16, place, 16);
  CHECK(cuGraphAddMemcpyNode(&copy, graph, &empty, 1, &copy_parameters, g.context));
  kernel_node second(g, place + 20, 33);
  CHECK(cuGraphAddKernelNode(&last, graph, &copy, 1, &second.parameters));
  run(graph, stream, place);

  CUDA_KERNEL_NODE_PARAMS seen{};
  CHECK(cuGraphKernelNodeGetParams(kernel, &seen));
  CUdeviceptr where;
  int what;
  std::memcpy(&where, seen.kernelParams[0], sizeof(where));
  std::memcpy(&what, seen.kernelParams[1], sizeof(what));
  std::printf("kernel: %s, grid %u, block %u, %s, value %d\n", seen.func == g.store ? "the same" : "another", seen.gridDimX,
              seen.blockDimX, where == place ? "the same place" : "another place", what);
  CUDA_MEMSET_NODE_PARAMS seen_fill{};
  CHECK(cuGraphMemsetNodeGetParams(memset, &seen_fill));
  std::printf("fill: %s, value %u, %u bytes, %zu x %zu\n", seen_fill.dst == place + 4 ? "the same place" : "another place",
              seen_fill.value, seen_fill.elementSize, seen_fill.width, seen_fill.height);
  CUDA_MEMCPY3D seen_copy{};
  CHECK(cuGraphMemcpyNodeGetParams(copy, &seen_copy));
  std::printf("copy: %s, %zu x %zu x %zu\n",
              seen_copy.srcDevice == place && seen_copy.dstDevice == place + 16 ? "the same places" : "other places",
              seen_copy.WidthInBytes, seen_copy.Height, seen_copy.Depth);
  line("the parameters of another type", cuGraphMemsetNodeGetParams(kernel, &seen_fill));

  kernel_node changed(g, place + 8, 44);
  CHECK(cuGraphKernelNodeSetParams(kernel, &changed.parameters));
  const auto other_fill = fill(place + 4, 55, 1);
  CHECK(cuGraphMemsetNodeSetParams(memset, &other_fill));
  run(graph, stream, place);

  size_t count = 0;
  CHECK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  std::printf("%zu edges\n", count);
  CUgraphNode from[8], to[8];
  count = 8;
  CHECK(cuGraphGetEdges(graph, from, to, nullptr, &count));
  REQUIRE(count == 4 && from[4] == nullptr && to[7] == nullptr);
  size_t into_empty = 0, out_of_copy = 8;
  CHECK(cuGraphNodeGetDependencies(empty, nullptr, nullptr, &into_empty));
  CHECK(cuGraphNodeGetDependentNodes(copy, to, nullptr, &out_of_copy));
  std::printf("%zu into the empty node, %zu out of the copy\n", into_empty, out_of_copy);
  REQUIRE(to[0] == last);
  CHECK(cuGraphRemoveDependencies(graph, &memset, &empty, nullptr, 1));
  CHECK(cuGraphNodeGetDependencies(empty, nullptr, nullptr, &into_empty));
  CHECK(cuGraphAddDependencies(graph, &memset, &kernel, nullptr, 1));
  CHECK(cuGraphGetRootNodes(graph, nullptr, &count));
  std::printf("now %zu into the empty node, %zu roots\n", into_empty, count);
  line("a cycle", cuGraphAddDependencies(graph, &last, &memset, nullptr, 1));
  CUgraphExec exec = nullptr;
  line("instantiate it", cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphRemoveDependencies(graph, &last, &memset, nullptr, 1));
  CHECK(cuGraphDestroyNode(last));
  CHECK(cuGraphGetNodes(graph, nullptr, &count));
  std::printf("%zu nodes after one was destroyed\n", count);
  run(graph, stream, place);
  CHECK(cuGraphDestroy(graph));
}

// A clone has nodes of its own; a child graph is a copy.
void copies_of_graphs(const gpu& g, CUstream stream, CUdeviceptr place) {
  CUgraph graph, clone, parent, inner;
  CUgraphNode node, twin, child, after;
  CHECK(cuGraphCreate(&graph, 0));
  kernel_node store(g, place, 1), other(g, place + 4, 2);
  CHECK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &store.parameters));
  CHECK(cuGraphClone(&clone, graph));
  CHECK(cuGraphNodeFindInClone(&twin, node, clone));
  REQUIRE(twin != node);
  CHECK(cuGraphKernelNodeSetParams(twin, &other.parameters));
  run(graph, stream, place);
  run(clone, stream, place);
  CHECK(cuGraphCreate(&parent, 0));
  CHECK(cuGraphAddChildGraphNode(&child, parent, nullptr, 0, graph));
  kernel_node third(g, place + 8, 3);
  CHECK(cuGraphAddKernelNode(&after, parent, &child, 1, &third.parameters));
  CHECK(cuGraphChildGraphNodeGetGraph(child, &inner));
  REQUIRE(inner != graph);
  size_t count = 0;
  CHECK(cuGraphGetNodes(inner, nullptr, &count));
  std::printf("%zu nodes in the child\n", count);
  CHECK(cuGraphDestroy(graph));
  run(parent, stream, place);
  CHECK(cuGraphDestroy(clone));
  CHECK(cuGraphDestroy(parent));
}

// An executable graph is changed in place: one node after the other, and as a whole.
void changes(const gpu& g, CUstream stream, CUdeviceptr place) {
  CUgraph graph, same, larger;
  CUgraphExec exec;
  CUgraphNode kernel, memset, node;
  CHECK(cuGraphCreate(&graph, 0));
  kernel_node store(g, place, 1);
  CHECK(cuGraphAddKernelNode(&kernel, graph, nullptr, 0, &store.parameters));
  const auto filling = fill(place + 4, 2, 1);
  CHECK(cuGraphAddMemsetNode(&memset, graph, &kernel, 1, &filling, g.context));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  long sum = 0;
  for (int i = 0; i < 1'000; ++i) {
    kernel_node next(g, place, i);
    CHECK(cuGraphExecKernelNodeSetParams(exec, kernel, &next.parameters));
    if (i % 100 != 7) continue;
    const auto other = fill(place + 4, static_cast<unsigned>(i), 1);
    CHECK(cuGraphExecMemsetNodeSetParams(exec, memset, &other, g.context));
    CHECK(cuGraphLaunch(exec, stream));
    int seen[2];
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(seen, place, sizeof(seen)));
    sum += seen[0] + seen[1];
  }
  std::printf("sum %ld\n", sum);
  unsigned enabled = 7;
  CHECK(cuGraphNodeGetEnabled(exec, memset, &enabled));
  std::printf("enabled %u", enabled);
  CHECK(cuGraphNodeSetEnabled(exec, memset, 0));
  CHECK(cuGraphNodeGetEnabled(exec, memset, &enabled));
  CHECK(cuMemsetD32(place, 77, 2));
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  int seen[2];
  CHECK(cuMemcpyDtoH(seen, place, sizeof(seen)));
  std::printf(", then %u: %d %d\n", enabled, seen[0], seen[1]);

  CHECK(cuGraphClone(&same, graph));
  CUgraphExecUpdateResultInfo info{};
  line("update from a clone", cuGraphExecUpdate(exec, same, &info));
  std::printf("detail %d\n", info.result);
  CHECK(cuGraphClone(&larger, graph));
  kernel_node more(g, place + 8, 3);
  CHECK(cuGraphAddKernelNode(&node, larger, nullptr, 0, &more.parameters));
  line("update from a larger graph", cuGraphExecUpdate(exec, larger, &info));
  std::printf("detail %d\n", info.result);
  CHECK(cuGraphDestroy(same));
  CHECK(cuGraphDestroy(larger));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuGraphExecDestroy(exec));
  line("launch what is destroyed", cuGraphLaunch(exec, stream) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
}

// Events inside a graph, recorded and waited for.
void events(const gpu& g, CUstream stream, CUdeviceptr place) {
  CUgraph graph;
  CUevent event, other, seen;
  CUgraphNode kernel, record, wait;
  CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&other, CU_EVENT_DEFAULT));
  CHECK(cuGraphCreate(&graph, 0));
  kernel_node store(g, place, 9);
  CHECK(cuGraphAddKernelNode(&kernel, graph, nullptr, 0, &store.parameters));
  CHECK(cuGraphAddEventRecordNode(&record, graph, &kernel, 1, event));
  CHECK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, other));
  CHECK(cuGraphEventRecordNodeGetEvent(record, &seen));
  REQUIRE(seen == event);
  CHECK(cuGraphEventWaitNodeSetEvent(wait, event));
  CHECK(cuGraphEventWaitNodeGetEvent(wait, &seen));
  REQUIRE(seen == event);
  run(graph, stream, place);
  CHECK(cuEventSynchronize(event));
  line("query the event", cuEventQuery(event));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuEventDestroy(event));
  CHECK(cuEventDestroy(other));
}

// The general function, and the attributes of a kernel node.
void general_nodes(const gpu& g, CUstream stream, CUdeviceptr place) {
  CUgraph graph;
  CUgraphNode first, second;
  CHECK(cuGraphCreate(&graph, 0));
  kernel_node store(g, place, 4);
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_KERNEL;
  p.kernel.func = store.parameters.func;
  p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = 1;
  p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
  p.kernel.kernelParams = store.pointers;
  CHECK(cuGraphAddNode(&first, graph, nullptr, nullptr, 0, &p));
  p = {};
  p.type = CU_GRAPH_NODE_TYPE_MEMSET;
  p.memset.dst = place + 4;
  p.memset.value = 6;
  p.memset.elementSize = 4;
  p.memset.width = 2;
  p.memset.height = 1;
  p.memset.ctx = g.context;
  CHECK(cuGraphAddNode(&second, graph, &first, nullptr, 1, &p));
  run(graph, stream, place);
  store.value = 5;
  p = {};
  p.type = CU_GRAPH_NODE_TYPE_KERNEL;
  p.kernel.func = store.parameters.func;
  p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = 1;
  p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
  p.kernel.kernelParams = store.pointers;
  CHECK(cuGraphNodeSetParams(first, &p));
  run(graph, stream, place);
  CUkernelNodeAttrValue value{};
  value.cooperative = 1;
  CHECK(cuGraphKernelNodeSetAttribute(first, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  value.cooperative = 0;
  CHECK(cuGraphKernelNodeGetAttribute(first, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  std::printf("cooperative %d\n", value.cooperative);
  CHECK(cuGraphDestroy(graph));
}

// Memory that lives inside a graph.
void memory_nodes(const gpu& g, CUstream stream, CUdeviceptr place) {
  CUgraph graph;
  CUgraphNode allocation, kernel, copy, release;
  CHECK(cuGraphCreate(&graph, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS p{};
  p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.poolProps.location.id = g.device;
  p.bytesize = 4096;
  CHECK(cuGraphAddMemAllocNode(&allocation, graph, nullptr, 0, &p));
  REQUIRE(p.dptr != 0);
  kernel_node store(g, p.dptr, 123);
  CHECK(cuGraphAddKernelNode(&kernel, graph, &allocation, 1, &store.parameters));
  const auto out = row(place, p.dptr, 4);
  CHECK(cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &out, g.context));
  CHECK(cuGraphAddMemFreeNode(&release, graph, &copy, 1, p.dptr));
  CUDA_MEM_ALLOC_NODE_PARAMS seen{};
  CHECK(cuGraphMemAllocNodeGetParams(allocation, &seen));
  CUdeviceptr freed = 0;
  CHECK(cuGraphMemFreeNodeGetParams(release, &freed));
  std::printf("allocates %zu, frees %s\n", seen.bytesize, freed == p.dptr && seen.dptr == p.dptr ? "the same" : "another");
  run(graph, stream, place);
  cuuint64_t used = 1;
  CHECK(cuDeviceGetGraphMemAttribute(g.device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
  std::printf("%llu bytes in use after the run\n", static_cast<unsigned long long>(used));
  CHECK(cuDeviceGraphMemTrim(g.device));
  CHECK(cuGraphDestroy(graph));
}

// A condition that is false, then true.
void conditions(const gpu& g, CUstream stream, CUdeviceptr place) {
  for (unsigned value = 0; value < 2; ++value) {
    CUgraph graph;
    CUgraphConditionalHandle condition;
    CUgraphNode node, inside;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphConditionalHandleCreate(&condition, graph, g.context, value, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = condition;
    p.conditional.type = CU_GRAPH_COND_TYPE_IF;
    p.conditional.size = 1;
    p.conditional.ctx = g.context;
    CHECK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &p));
    CUgraph body = p.conditional.phGraph_out[0];
    kernel_node store(g, place, 70);
    CHECK(cuGraphAddKernelNode(&inside, body, nullptr, 0, &store.parameters));
    run(graph, stream, place);
    CHECK(cuGraphDestroy(graph));
  }
}

void picture(const gpu& g, CUdeviceptr place) {
  CUgraph graph;
  CUgraphNode node;
  CHECK(cuGraphCreate(&graph, 0));
  kernel_node store(g, place, 1);
  CHECK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &store.parameters));
  const std::string path = "/tmp/graph-" + std::to_string(getpid()) + ".dot";
  CHECK(cuGraphDebugDotPrint(graph, path.c_str(), 0));
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::printf("the picture %s\n", text.find("digraph") != std::string::npos ? "is a digraph" : "is none");
  unlink(path.c_str());
  line("a path that is none", cuGraphDebugDotPrint(graph, "/no/such/folder/graph.dot", 0) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
  CHECK(cuGraphDestroy(graph));
}

void null_arguments(const gpu& g) {
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec exec;
  size_t count = 0;
  line("create", cuGraphCreate(nullptr, 0));
  CHECK(cuGraphCreate(&graph, 0));
  line("add", cuGraphAddEmptyNode(nullptr, graph, nullptr, 0));
  line("add to none", cuGraphAddEmptyNode(&node, nullptr, nullptr, 0));
  line("dependencies", cuGraphAddEmptyNode(&node, graph, nullptr, 3));
  line("kernel", cuGraphAddKernelNode(&node, graph, nullptr, 0, nullptr));
  line("nodes", cuGraphGetNodes(nullptr, nullptr, &count));
  line("instantiate", cuGraphInstantiate(&exec, nullptr, 0));
  line("launch", cuGraphLaunch(nullptr, nullptr));
  line("destroy", cuGraphDestroy(nullptr));
  line("destroy exec", cuGraphExecDestroy(nullptr));
  CHECK(cuGraphDestroy(graph));
  (void)g;
}

}  // namespace

int main() {
  gpu g;
  CUdeviceptr place;
  CUstream stream;
  CHECK(cuMemAlloc(&place, 4096));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  four_kinds(g, stream, place);
  copies_of_graphs(g, stream, place);
  changes(g, stream, place);
  events(g, stream, place);
  general_nodes(g, stream, place);
  picture(g, place);
  null_arguments(g);
  memory_nodes(g, stream, place);
  conditions(g, stream, place);
  std::printf("PASSED\n");
}
