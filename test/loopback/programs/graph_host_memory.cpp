// SPDX-License-Identifier: Apache-2.0
// Graphs that touch the program itself: host functions in them, copies from and to its memory, read and written anew at every
// launch, and user objects that a graph keeps alive.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "test/loopback/programs/common.hpp"

namespace {

void line(const char* what, CUresult result) {
  std::printf("%s: %d\n", what, static_cast<int>(result));
}

// A captured round trip through the device: what the program writes between launches comes out of the next one.
void captured_copies(const gpu& g, CUstream stream, size_t count, bool pinned) {
  const size_t bytes = count * sizeof(int);
  std::vector<int> pageable_in(count), pageable_out(count);
  void *pinned_in = nullptr, *pinned_out = nullptr;
  CHECK(cuMemAllocHost(&pinned_in, bytes));
  CHECK(cuMemAllocHost(&pinned_out, bytes));
  int* in = pinned ? static_cast<int*>(pinned_in) : pageable_in.data();
  int* out = pinned ? static_cast<int*>(pinned_out) : pageable_out.data();
  CUdeviceptr place, other;
  CHECK(cuMemAlloc(&place, bytes));
  CHECK(cuMemAlloc(&other, bytes));
  CUgraph graph;
  CUgraphExec exec;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuMemcpyHtoDAsync(place, in, bytes, stream));
  CHECK(cuMemcpyDtoDAsync(other, place, bytes, stream));
  g.launch_store(other, 7, stream);
  CHECK(cuMemcpyDtoHAsync(out, other, bytes, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &nodes));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  bool right = true;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < count; ++i) in[i] = static_cast<int>(i * 3) + round;
    std::fill(out, out + count, -1);
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    right = right && out[0] == 7;
    for (size_t i = 1; i < count; ++i) right = right && out[i] == static_cast<int>(i * 3) + round;
  }
  // What one launch wrote the next may read, without the program in between.
  CUgraph back;
  CUgraphExec reads_out;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuMemcpyHtoDAsync(place, out, bytes, stream));
  CHECK(cuStreamEndCapture(stream, &back));
  CHECK(cuGraphInstantiate(&reads_out, back, 0));
  in[1] = 4711;
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuGraphLaunch(reads_out, stream));
  CHECK(cuStreamSynchronize(stream));
  int seen[2];
  CHECK(cuMemcpyDtoH(seen, place, sizeof(seen)));
  std::printf("%zu bytes, %s: %zu nodes, %s, chained %d %d\n", bytes, pinned ? "pinned" : "pageable", nodes,
              right ? "right" : "wrong", seen[0], seen[1]);
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphExecDestroy(reads_out));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuGraphDestroy(back));
  CHECK(cuMemFree(place));
  CHECK(cuMemFree(other));
  CHECK(cuMemFreeHost(pinned_in));
  CHECK(cuMemFreeHost(pinned_out));
}

// Copy nodes built by hand, one of them with rows apart, and changed in the executable graph.
void copy_nodes(const gpu& g, CUstream stream) {
  constexpr size_t width = 8, pitch = 32, rows = 5;
  std::vector<unsigned char> from(width * rows), to(pitch * rows, 0xee);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i);
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, width * rows));
  CUgraph graph;
  CUgraphNode in, out;
  CHECK(cuGraphCreate(&graph, 0));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from.data();
  copy.srcPitch = width;
  copy.srcHeight = rows;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = place;
  copy.dstPitch = width;
  copy.dstHeight = rows;
  copy.WidthInBytes = width;
  copy.Height = rows;
  copy.Depth = 1;
  CHECK(cuGraphAddMemcpyNode(&in, graph, nullptr, 0, &copy, g.context));
  CUDA_MEMCPY3D other{};
  other.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  other.srcDevice = place;
  other.srcPitch = width;
  other.srcHeight = rows;
  other.dstMemoryType = CU_MEMORYTYPE_HOST;
  other.dstHost = to.data();
  other.dstXInBytes = 4;
  other.dstPitch = pitch;
  other.dstHeight = rows;
  other.WidthInBytes = width;
  other.Height = rows;
  other.Depth = 1;
  CHECK(cuGraphAddMemcpyNode(&out, graph, &in, 1, &other, g.context));
  CUDA_MEMCPY3D seen{};
  CHECK(cuGraphMemcpyNodeGetParams(in, &seen));
  std::printf("the node names %s\n", seen.srcHost == from.data() ? "the program's memory" : "another place");
  CUgraphExec exec;
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  bool right = true;
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t x = i % pitch, y = i / pitch;
    right = right && to[i] == (x >= 4 && x < 4 + width ? from[y * width + x - 4] : 0xee);
  }
  std::printf("rows %s\n", right ? "right" : "wrong");
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuMemFree(place));
}

// Only copies of one dimension may be changed in an executable graph.
void changed_copy(const gpu& g, CUstream stream) {
  int first[4] = {1, 2, 3, 4}, second[4] = {5, 6, 7, 8}, seen[4] = {};
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, sizeof(first)));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = first;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = place;
  copy.WidthInBytes = sizeof(first);
  copy.Height = copy.Depth = 1;
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec exec;
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, g.context));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  for (const int* source : {first, second}) {
    copy.srcHost = source;
    CHECK(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, g.context));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(seen, place, sizeof(seen)));
    std::printf("copied %d %d\n", seen[0], seen[3]);
  }
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuMemFree(place));
}

struct counted {
  std::atomic<int> runs{0};
  int* read = nullptr;
  int* write = nullptr;
  int seen = 0;
};

void CUDA_CB host_function(void* data) {
  auto* c = static_cast<counted*>(data);
  ++c->runs;
  if (c->read != nullptr) c->seen = *c->read;
  if (c->write != nullptr) *c->write = c->seen + 1000;
}

// Device to host, a function of the program that reads it and writes what goes back to the device.
void host_nodes(const gpu& g, CUstream stream) {
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, 64));
  void* pinned = nullptr;
  CHECK(cuMemAllocHost(&pinned, 64));
  int* memory = static_cast<int*>(pinned);
  memory[0] = memory[1] = -5;
  counted state;
  state.read = memory;
  state.write = memory + 1;
  CUgraph graph;
  CUgraphExec exec;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  g.launch_store(place, 21, stream);
  CHECK(cuMemcpyDtoHAsync(memory, place, 4, stream));
  CHECK(cuLaunchHostFunc(stream, host_function, &state));
  CHECK(cuMemcpyHtoDAsync(place + 4, memory + 1, 4, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  size_t count = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &count));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  int seen[2] = {};
  for (int round = 0; round < 2; ++round) {
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
  }
  CHECK(cuMemcpyDtoH(seen, place, sizeof(seen)));
  std::printf("%zu nodes, %d runs, saw %d, device %d %d\n", count, state.runs.load(), state.seen, seen[0], seen[1]);
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));

  counted first, second;
  CUgraphNode node;
  CUDA_HOST_NODE_PARAMS p{host_function, &first}, told{};
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddHostNode(&node, graph, nullptr, 0, &p));
  CHECK(cuGraphHostNodeGetParams(node, &told));
  REQUIRE(told.fn == host_function && told.userData == &first);
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphLaunch(exec, stream));
  p.userData = &second;
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecHostNodeSetParams(exec, node, &p));
  for (int i = 0; i < 5; ++i) CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  std::printf("runs %d and %d\n", first.runs.load(), second.runs.load());
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuMemFree(place));
  CHECK(cuMemFreeHost(pinned));
}

void wait_for(const std::atomic<int>& value, int wanted) {
  for (int i = 0; i < 5'000 && value.load() != wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void CUDA_CB destroyed(void* data) {
  ++*static_cast<std::atomic<int>*>(data);
}

void user_objects() {
  std::atomic<int> gone{0};
  CUuserObject object;
  CUgraph graph, clone;
  line("no reference", cuUserObjectCreate(&object, &gone, destroyed, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  line("no flag", cuUserObjectCreate(&object, &gone, destroyed, 1, 0));
  CHECK(cuUserObjectCreate(&object, &gone, destroyed, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  CHECK(cuUserObjectRetain(object, 1));
  CHECK(cuUserObjectRelease(object, 2));
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CHECK(cuGraphClone(&clone, graph));
  CHECK(cuGraphDestroy(graph));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::printf("destroyed %d times while a clone lives\n", gone.load());
  CHECK(cuGraphDestroy(clone));
  wait_for(gone, 1);
  std::printf("destroyed %d times\n", gone.load());
}

}  // namespace

int main() {
  gpu g;
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (bool pinned : {false, true}) {
    captured_copies(g, stream, 16, pinned);
    captured_copies(g, stream, 700'000, pinned);
  }
  copy_nodes(g, stream);
  changed_copy(g, stream);
  host_nodes(g, stream);
  user_objects();
  std::printf("PASSED\n");
}
