// SPDX-License-Identifier: Apache-2.0
// Reading the parameters of nodes. What the driver's structures point to belongs to the node
// natively; here it is kept by the node's handle until the node is changed or goes.
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "shim/attributes.hpp"
#include "shim/contexts.hpp"
#include "shim/devices.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/graph_parameters.hpp"
#include "shim/graphs.hpp"
#include "shim/host_functions.hpp"
#include "shim/images.hpp"

namespace gpuwire::shim {
namespace {

struct node_values {
  std::uint64_t graph = 0;
  std::vector<std::byte> arguments;  // of a kernel
  std::vector<void*> pointers;       // to each of them
  std::vector<CUstreamBatchMemOpParams> operations;
  std::vector<CUmemAccessDesc> accesses;
};

struct values_of_nodes {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::unique_ptr<node_values>> by_node;
};

values_of_nodes& all_values() {
  static auto* the_values = new values_of_nodes;
  return *the_values;
}

node_values& keep_for(CUgraphNode node, std::uint64_t graph) {
  auto& all = all_values();
  std::lock_guard lock(all.mutex);
  auto& place = all.by_node[id_of(node)];
  place = std::make_unique<node_values>();
  place->graph = graph;
  return *place;
}

// The program's number of one of the server's devices.
int visible_ordinal(int server_ordinal) {
  const auto& devices = state().devices;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].server_ordinal == server_ordinal) return static_cast<int>(i);
  return server_ordinal;
}

// The answer to a question about a node, with the parameters where the call succeeded.
answer<msg::graph_node_get> ask(CUgraphNode node, CUgraphNodeType type) {
  msg::graph_node_get::request q;
  q.node = id_of(node);
  q.type = static_cast<std::uint32_t>(type);
  auto a = call<msg::graph_node_get>(q);
  if (a.result == CUDA_SUCCESS && a.body.parameters.size() != 1) {
    detail::reply_is_malformed("graph_node_get");
    a.result = CUDA_ERROR_UNKNOWN;
  }
  return a;
}

// A node that was captured from a library's kernel has a function that this process never asked
// for.
void learn(std::uint64_t function, const msg::graph_node_get::reply& body) {
  const auto kind = wire::handle_kind_of(function);
  if (function == 0 || kind == 7 || find_function(handle_from<CUfunction>(function)) != nullptr)
    return;
  kernel_details details;
  details.name = body.kernel_name;
  for (std::uint32_t i = 0; i < body.parameter_offsets.size && i < body.parameter_bytes.size; ++i)
    details.parameters.push_back({body.parameter_offsets[i], body.parameter_bytes[i]});
  details.parameter_bytes = parameter_block_bytes(details.parameters);
  if (details.parameter_bytes <= parameter_block_bytes_max)
    learn_kernel(function, std::move(details));
}

CUresult kernel_values(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2& out) {
  const auto a = ask(node, CU_GRAPH_NODE_TYPE_KERNEL);
  if (a.result != CUDA_SUCCESS) return a.result;
  const auto& p = a.body.parameters.front();
  word_reader read(p.words);
  out = {};
  read(out.func), read(out.kern), read(out.ctx);
  read(out.gridDimX), read(out.gridDimY), read(out.gridDimZ);
  read(out.blockDimX), read(out.blockDimY), read(out.blockDimZ);
  read(out.sharedMemBytes);
  learn(id_of(out.func), a.body);
  auto& kept = keep_for(node, a.body.graph);
  kept.arguments.assign(p.data.data, p.data.data + p.data.size);
  for (std::uint32_t i = 0; i < a.body.parameter_offsets.size; ++i) {
    const auto offset = a.body.parameter_offsets[i];
    if (i >= a.body.parameter_bytes.size ||
        offset + std::size_t{a.body.parameter_bytes[i]} > kept.arguments.size())
      return CUDA_ERROR_UNKNOWN;
    kept.pointers.push_back(kept.arguments.data() + offset);
  }
  out.kernelParams = kept.pointers.empty() ? nullptr : kept.pointers.data();
  return CUDA_SUCCESS;
}

}  // namespace

void forget_node_values(CUgraphNode node) {
  auto& all = all_values();
  std::lock_guard lock(all.mutex);
  all.by_node.erase(id_of(node));
}

void forget_values_of_graph(CUgraph graph) {
  auto& all = all_values();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.by_node,
                [&](const auto& entry) { return entry.second->graph == id_of(graph); });
}

namespace custom {

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  if (does_nothing_yet()) return CUDA_SUCCESS;
  if (const CUresult r = admit("cuGraphKernelNodeGetParams_v2", CUDA_ERROR_NOT_INITIALIZED);
      r != CUDA_SUCCESS)
    return r;
  if (hNode == nullptr || nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return kernel_values(hNode, *nodeParams);
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  if (does_nothing_yet()) return CUDA_SUCCESS;
  if (const CUresult r = admit("cuGraphKernelNodeGetParams", CUDA_ERROR_NOT_INITIALIZED);
      r != CUDA_SUCCESS)
    return r;
  if (hNode == nullptr || nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS_v2 all;
  const CUresult r = kernel_values(hNode, all);
  if (r != CUDA_SUCCESS) return r;
  *nodeParams = {all.func,      all.gridDimX,  all.gridDimY,       all.gridDimZ,     all.blockDimX,
                 all.blockDimY, all.blockDimZ, all.sharedMemBytes, all.kernelParams, all.extra};
  return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
  if (hNode == nullptr || nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto a = ask(hNode, CU_GRAPH_NODE_TYPE_MEMCPY);
  if (a.result != CUDA_SUCCESS) return a.result;
  word_reader read(a.body.parameters.front().words);
  auto& p = *nodeParams;
  p = {};
  read.next();  // the context, which this function does not tell
  read(p.srcXInBytes), read(p.srcY), read(p.srcZ), read(p.srcLOD), read(p.srcMemoryType);
  read(p.srcHost), read(p.srcDevice), read(p.srcArray), read(p.srcPitch), read(p.srcHeight);
  read(p.dstXInBytes), read(p.dstY), read(p.dstZ), read(p.dstLOD), read(p.dstMemoryType);
  read(p.dstHost), read(p.dstDevice), read(p.dstArray), read(p.dstPitch), read(p.dstHeight);
  read(p.WidthInBytes), read(p.Height), read(p.Depth);
  return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  if (hNode == nullptr || nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto a = ask(hNode, CU_GRAPH_NODE_TYPE_MEMSET);
  if (a.result != CUDA_SUCCESS) return a.result;
  word_reader read(a.body.parameters.front().words);
  auto& p = *nodeParams;
  read.next();
  read(p.dst), read(p.pitch), read(p.value), read(p.elementSize), read(p.width), read(p.height);
  return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
  if (hNode == nullptr || nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto a = ask(hNode, CU_GRAPH_NODE_TYPE_HOST);
  if (a.result != CUDA_SUCCESS) return a.result;
  const auto known = find_host_function(word_reader(a.body.parameters.front().words).next());
  if (!known) return CUDA_ERROR_UNKNOWN;
  nodeParams->fn = known->function;
  nodeParams->userData = known->argument;
  return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph* phGraph) {
  if (hNode == nullptr || phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto a = ask(hNode, CU_GRAPH_NODE_TYPE_GRAPH);
  if (a.result == CUDA_SUCCESS)
    *phGraph = handle_from<CUgraph>(word_reader(a.body.parameters.front().words).next());
  return a.result;
}

namespace {
CUresult event_of(CUgraphNode node, CUgraphNodeType type, CUevent* out) {
  if (node == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto a = ask(node, type);
  if (a.result == CUDA_SUCCESS)
    *out = handle_from<CUevent>(word_reader(a.body.parameters.front().words).next());
  return a.result;
}
}  // namespace

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
  return event_of(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
  return event_of(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
                                        CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams_out) {
  if (hNode == nullptr || nodeParams_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto a = ask(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  if (a.result != CUDA_SUCCESS) return a.result;
  word_reader read(a.body.parameters.front().words);
  auto& p = *nodeParams_out;
  p = {};
  read(p.ctx), read(p.flags);
  auto& kept = keep_for(hNode, a.body.graph);
  while (read.left() >= 4) {
    auto& op = kept.operations.emplace_back();
    std::memset(&op, 0, sizeof op);
    read(op.waitValue.operation), read(op.waitValue.address), read(op.waitValue.value64);
    std::uint64_t flags = read.next();
    if (op.operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES ||
        op.operation == CU_STREAM_MEM_OP_BARRIER)
      op.flushRemoteWrites.flags = static_cast<unsigned>(flags);
    else
      op.waitValue.flags = static_cast<unsigned>(flags);
  }
  p.count = static_cast<unsigned>(kept.operations.size());
  p.paramArray = kept.operations.data();
  return CUDA_SUCCESS;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
  if (hNode == nullptr || params_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto a = ask(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  if (a.result != CUDA_SUCCESS) return a.result;
  word_reader read(a.body.parameters.front().words);
  auto& p = *params_out;
  p = {};
  const auto location = [&read](CUmemLocation& at) {
    read(at.type), read(at.id);
    if (at.type == CU_MEM_LOCATION_TYPE_DEVICE) at.id = visible_ordinal(at.id);
  };
  read(p.poolProps.allocType), read(p.poolProps.handleTypes);
  location(p.poolProps.location);
  read(p.poolProps.maxSize), read(p.poolProps.usage), read(p.bytesize), read(p.dptr);
  auto& kept = keep_for(hNode, a.body.graph);
  while (read.left() >= 3) {
    auto& access = kept.accesses.emplace_back();
    location(access.location);
    read(access.flags);
  }
  p.accessDescCount = kept.accesses.size();
  p.accessDescs = kept.accesses.empty() ? nullptr : kept.accesses.data();
  return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
  if (hNode == nullptr || dptr_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto a = ask(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE);
  if (a.result == CUDA_SUCCESS) *dptr_out = word_reader(a.body.parameters.front().words).next();
  return a.result;
}

// ---- attributes ----

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       CUkernelNodeAttrValue* value_out) {
  if (hNode == nullptr || value_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_attribute_get::request q;
  q.node = id_of(hNode);
  q.attribute = static_cast<std::uint32_t>(attr);
  const auto a = call<msg::graph_attribute_get>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (a.body.value.size() != 1 || !decode_attribute(a.body.value.front(), *value_out))
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       const CUkernelNodeAttrValue* value) {
  if (hNode == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_attribute_set::request q;
  q.node = id_of(hNode);
  q.value.resize(1);
  attribute_values storage;
  if (!encode_attribute(attr, *value, q.value.front(), storage)) return CUDA_ERROR_INVALID_VALUE;
  return call<msg::graph_attribute_set>(q).result;
}

// ---- memory of graphs ----

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_memory_get::request q;
  q.device = device_ordinal(device);
  q.attribute = static_cast<std::uint32_t>(attr);
  const auto a = call<msg::graph_memory_get>(q);
  if (a.result == CUDA_SUCCESS) std::memcpy(value, &a.body.value, sizeof a.body.value);
  return a.result;
}
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::graph_memory_set::request q;
  q.device = device_ordinal(device);
  q.attribute = static_cast<std::uint32_t>(attr);
  std::memcpy(&q.value, value, sizeof q.value);
  return call<msg::graph_memory_set>(q).result;
}

}  // namespace custom
}  // namespace gpuwire::shim
