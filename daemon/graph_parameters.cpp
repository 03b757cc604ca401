// SPDX-License-Identifier: Apache-2.0
#include "daemon/graph_parameters.hpp"

#include <algorithm>
#include <cstring>

namespace gpuwire::daemon {
namespace {

constexpr std::uint32_t kernel_words = 10, copy_words = 24, fill_words = 7, allocation_words = 8;
constexpr std::uint64_t shadow_bytes_max = std::uint64_t{1} << 40;
constexpr std::size_t parameters_max = 4096;  // of a kernel; the hardware has room for fewer

}  // namespace

CUresult ask_layout(const driver_table& d, CUfunction function, CUkernel kernel,
                    kernel_layout& out) {
  std::size_t offset = 0, bytes = 0;
  while (out.offsets.size() < parameters_max) {
    auto result = CUDA_ERROR_NOT_SUPPORTED;
    if (function != nullptr && d.cuFuncGetParamInfo != nullptr)
      result = d.cuFuncGetParamInfo(function, out.offsets.size(), &offset, &bytes);
    else if (function == nullptr && d.cuKernelGetParamInfo != nullptr)
      result = d.cuKernelGetParamInfo(kernel, out.offsets.size(), &offset, &bytes);
    if (result == CUDA_ERROR_NOT_SUPPORTED) return result;
    if (result != CUDA_SUCCESS) break;  // one beyond the last
    out.offsets.push_back(static_cast<std::uint32_t>(offset));
    out.bytes.push_back(static_cast<std::uint32_t>(bytes));
    out.block_bytes = std::max(out.block_bytes, offset + bytes);
  }
  return CUDA_SUCCESS;
}

CUresult node_parameters::read_kernel(call_context& c, const msg::graph_node_parameters& p) {
  auto& out = parameters_.kernel;
  const auto function = word(), kernel = word();
  out.func = function == 0 ? nullptr : c.function(function);
  out.kern = c.native<handle_kind::kernel>(kernel);
  out.ctx = c.native<handle_kind::context>(word());
  take(out.gridDimX), take(out.gridDimY), take(out.gridDimZ);
  take(out.blockDimX), take(out.blockDimY), take(out.blockDimZ);
  take(out.sharedMemBytes);
  if (c.failed()) return c.failure();
  if (out.func == nullptr && out.kern == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  kernel_layout layout;
  const bool named_as_kernel =
      static_cast<handle_kind>(wire::handle_kind_of(function)) == handle_kind::kernel;
  const auto known = named_as_kernel ? ask_layout(c.driver(), nullptr,
                                                  reinterpret_cast<CUkernel>(out.func), layout)
                                     : ask_layout(c.driver(), out.func, out.kern, layout);
  if (known != CUDA_SUCCESS) return known;
  if (layout.block_bytes > p.data.size) return CUDA_ERROR_INVALID_VALUE;
  arguments_.assign(p.data.data, p.data.data + p.data.size);
  for (const auto offset : layout.offsets) pointers_.push_back(arguments_.data() + offset);
  out.kernelParams = pointers_.empty() ? nullptr : pointers_.data();
  return CUDA_SUCCESS;
}

CUresult node_parameters::read_operand(call_context&, bool source) {
  auto& copy = parameters_.memcpy.copyParams;
  std::size_t place[4];
  for (auto& coordinate : place) take(coordinate);
  const auto type = word(), host = word(), device = word(), array = word();
  const auto pitch = word(), height = word();
  if (type == CU_MEMORYTYPE_ARRAY || array != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED && type != CU_MEMORYTYPE_HOST)
    return CUDA_ERROR_INVALID_VALUE;
  // A number of the client's until to_shadows() has made an address of ours of it.
  if (type == CU_MEMORYTYPE_HOST) (source ? source_host_ : destination_host_) = host;
  if (source) {
    copy.srcXInBytes = place[0], copy.srcY = place[1], copy.srcZ = place[2], copy.srcLOD = place[3];
    copy.srcMemoryType = static_cast<CUmemorytype>(type);
    copy.srcDevice = device, copy.srcPitch = pitch, copy.srcHeight = height;
  } else {
    copy.dstXInBytes = place[0], copy.dstY = place[1], copy.dstZ = place[2], copy.dstLOD = place[3];
    copy.dstMemoryType = static_cast<CUmemorytype>(type);
    copy.dstDevice = device, copy.dstPitch = pitch, copy.dstHeight = height;
  }
  return CUDA_SUCCESS;
}

CUresult node_parameters::read_copy(call_context& c) {
  auto& out = parameters_.memcpy;
  out.copyCtx = c.native<handle_kind::context>(word());
  if (c.failed()) return c.failure();
  // A copy without a context means the current one; the general function of the driver wants it
  // said.
  if (out.copyCtx == nullptr) {
    const auto current = c.owner().handles(handle_kind::context).find_index(c.ticket().context);
    if (current) out.copyCtx = static_cast<CUcontext>(current->native);
  }
  if (const auto r = read_operand(c, true); r != CUDA_SUCCESS) return r;
  if (const auto r = read_operand(c, false); r != CUDA_SUCCESS) return r;
  take(out.copyParams.WidthInBytes), take(out.copyParams.Height), take(out.copyParams.Depth);
  return to_shadows(c);
}

CUresult node_parameters::to_shadows(call_context& c) {
  auto& p = parameters_.memcpy.copyParams;
  // From the operand's base to the end of the last row that the copy touches.
  const auto reach = [&p](std::uint64_t x, std::uint64_t y, std::uint64_t z, std::uint64_t pitch,
                          std::uint64_t height) -> std::uint64_t {
    const auto last_row =
        (z + (p.Depth == 0 ? 0 : p.Depth - 1)) * height + y + (p.Height == 0 ? 0 : p.Height - 1);
    std::uint64_t rows = 0, end = 0;
    if (last_row > shadow_bytes_max || __builtin_mul_overflow(last_row, pitch, &rows) ||
        __builtin_add_overflow(rows, x, &end) || __builtin_add_overflow(end, p.WidthInBytes, &end))
      return ~std::uint64_t{0};
    return end;
  };
  auto& memory = c.owner().graph_data;
  if (p.srcMemoryType == CU_MEMORYTYPE_HOST) {
    p.srcHost =
        memory.shadow(source_host_, reach(p.srcXInBytes, p.srcY, p.srcZ, p.srcPitch, p.srcHeight));
    if (p.srcHost == nullptr)
      return source_host_ == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
  }
  if (p.dstMemoryType == CU_MEMORYTYPE_HOST) {
    p.dstHost = memory.shadow(destination_host_,
                              reach(p.dstXInBytes, p.dstY, p.dstZ, p.dstPitch, p.dstHeight));
    if (p.dstHost == nullptr)
      return destination_host_ == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult node_parameters::read_batch(call_context& c) {
  auto& out = parameters_.memOp;
  out.ctx = c.native<handle_kind::context>(word());
  take(out.flags);
  while (at_ + 4 <= words_.size) {
    auto& op = operations_.emplace_back();
    std::memset(&op, 0, sizeof op);
    const auto kind = static_cast<CUstreamBatchMemOpType>(word());
    const auto address = word(), value = word();
    const auto flags = static_cast<unsigned>(word());
    op.operation = kind;
    if (kind == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES || kind == CU_STREAM_MEM_OP_BARRIER) {
      op.flushRemoteWrites.flags = flags;
      continue;
    }
    op.waitValue.address = address;
    op.waitValue.value64 = value;
    op.waitValue.flags = flags;
  }
  out.count = static_cast<unsigned>(operations_.size());
  out.paramArray = operations_.data();
  return c.failure();
}

CUresult node_parameters::read_allocation() {
  auto& out = parameters_.alloc;
  take(out.poolProps.allocType), take(out.poolProps.handleTypes);
  take(out.poolProps.location.type), take(out.poolProps.location.id);
  take(out.poolProps.maxSize), take(out.poolProps.usage), take(out.bytesize), take(out.dptr);
  while (at_ + 3 <= words_.size) {
    auto& access = accesses_.emplace_back();
    take(access.location.type), take(access.location.id), take(access.flags);
  }
  out.accessDescCount = accesses_.size();
  out.accessDescs = accesses_.empty() ? nullptr : accesses_.data();
  return CUDA_SUCCESS;
}

CUresult node_parameters::read(call_context& c,
                               const std::vector<msg::graph_node_parameters>& list) {
  if (list.size() != 1) return CUDA_ERROR_INVALID_VALUE;
  const auto& p = list.front();
  words_ = p.words;
  parameters_.type = static_cast<CUgraphNodeType>(p.type);
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return has(kernel_words) ? read_kernel(c, p) : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return has(copy_words) ? read_copy(c) : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      if (!has(fill_words)) return CUDA_ERROR_INVALID_VALUE;
      auto& out = parameters_.memset;
      out.ctx = c.native<handle_kind::context>(word());
      take(out.dst), take(out.pitch), take(out.value), take(out.elementSize), take(out.width);
      take(out.height);
      if (out.ctx == nullptr && !c.failed()) {
        const auto current = c.owner().handles(handle_kind::context).find_index(c.ticket().context);
        if (current) out.ctx = static_cast<CUcontext>(current->native);
      }
      return c.failure();
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      if (!has(1)) return CUDA_ERROR_INVALID_VALUE;
      const auto trampoline = c.owner().callbacks.shared_trampoline(word());
      parameters_.host = {trampoline.function, trampoline.data};
      return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      parameters_.graph.graph = c.native<handle_kind::graph>(word());
      take(parameters_.graph.ownership);
      return c.failure();
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      parameters_.eventWait.event = c.native<handle_kind::event>(word());
      return c.failure();
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      parameters_.eventRecord.event = c.native<handle_kind::event>(word());
      return c.failure();
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return words_.size >= allocation_words ? read_allocation() : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      take(parameters_.free.dptr);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return read_batch(c);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
      auto& out = parameters_.conditional;
      out.ctx = c.native<handle_kind::context>(word());
      take(out.handle), take(out.type), take(out.size);
      return c.failure();
    }
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// ---- answers ----

namespace {

std::uint64_t handle_of_function(call_context& c, CUfunction function) {
  if (function == nullptr) return 0;
  if (const auto id = c.owner().handles(handle_kind::function).id_of(function)) return id;
  if (const auto id = c.owner().handles(handle_kind::kernel).id_of(function)) return id;
  return c.mint<handle_kind::function>(function);
}

}  // namespace

CUresult node_answer::ask_kernel(call_context& c, CUgraphNode node) {
  const auto& d = c.driver();
  CUDA_KERNEL_NODE_PARAMS_v2 p{};
  auto result = CUDA_ERROR_NOT_SUPPORTED;
  if (d.cuGraphKernelNodeGetParams_v2 != nullptr)
    result = d.cuGraphKernelNodeGetParams_v2(node, &p);
  if (result != CUDA_SUCCESS) return result;
  const auto function = handle_of_function(c, p.func);
  const auto kernel = c.owner().handles(handle_kind::kernel).id_of(p.kern);
  const bool as_kernel =
      static_cast<handle_kind>(wire::handle_kind_of(function)) == handle_kind::kernel;
  result = as_kernel ? ask_layout(d, nullptr, reinterpret_cast<CUkernel>(p.func), layout_)
                     : ask_layout(d, p.func, p.kern, layout_);
  if (result != CUDA_SUCCESS) return result;
  const char* name = nullptr;
  if (p.func != nullptr && !as_kernel && d.cuFuncGetName != nullptr &&
      d.cuFuncGetName(&name, p.func) == CUDA_SUCCESS && name != nullptr)
    name_ = name;
  add(function, kernel, c.owner().handles(handle_kind::context).id_of(p.ctx), p.gridDimX,
      p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ, p.sharedMemBytes);
  data_.resize(layout_.block_bytes);
  for (std::size_t i = 0; i < layout_.offsets.size() && p.kernelParams != nullptr; ++i)
    std::memcpy(data_.data() + layout_.offsets[i], p.kernelParams[i], layout_.bytes[i]);
  return CUDA_SUCCESS;
}

CUresult node_answer::ask_copy(call_context& c, CUgraphNode node) {
  const auto& d = c.driver();
  CUDA_MEMCPY3D p{};
  if (d.cuGraphMemcpyNodeGetParams == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const auto result = d.cuGraphMemcpyNodeGetParams(node, &p);
  if (result != CUDA_SUCCESS) return result;
  // Shadows are told as what they stand for.
  const auto tell = [&](CUmemorytype type, const void* host, CUdeviceptr device, std::size_t pitch,
                        std::size_t height) {
    const auto address =
        type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(host) : device;
    const auto own = type == CU_MEMORYTYPE_ARRAY ? 0 : c.owner().graph_data.client_address(address);
    if (own != 0)
      add(CU_MEMORYTYPE_HOST, own, 0, 0, pitch, height);
    else
      add(type, 0, type == CU_MEMORYTYPE_HOST ? 0 : device, 0, pitch, height);
  };
  add(0, p.srcXInBytes, p.srcY, p.srcZ, p.srcLOD);
  tell(p.srcMemoryType, p.srcHost, p.srcDevice, p.srcPitch, p.srcHeight);
  add(p.dstXInBytes, p.dstY, p.dstZ, p.dstLOD);
  tell(p.dstMemoryType, p.dstHost, p.dstDevice, p.dstPitch, p.dstHeight);
  add(p.WidthInBytes, p.Height, p.Depth);
  return CUDA_SUCCESS;
}

CUresult node_answer::ask_batch(call_context& c, CUgraphNode node) {
  CUDA_BATCH_MEM_OP_NODE_PARAMS p{};
  if (c.driver().cuGraphBatchMemOpNodeGetParams == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const auto result = c.driver().cuGraphBatchMemOpNodeGetParams(node, &p);
  if (result != CUDA_SUCCESS) return result;
  add(c.owner().handles(handle_kind::context).id_of(p.ctx), p.flags);
  for (unsigned i = 0; i < p.count; ++i) {
    const auto& op = p.paramArray[i];
    const bool valueless = op.operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES ||
                           op.operation == CU_STREAM_MEM_OP_BARRIER;
    if (valueless)
      add(op.operation, 0, 0, op.flushRemoteWrites.flags);
    else
      add(op.operation, op.waitValue.address, op.waitValue.value64, op.waitValue.flags);
  }
  return CUDA_SUCCESS;
}

CUresult node_answer::ask_allocation(call_context& c, CUgraphNode node) {
  CUDA_MEM_ALLOC_NODE_PARAMS p{};
  if (c.driver().cuGraphMemAllocNodeGetParams == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const auto result = c.driver().cuGraphMemAllocNodeGetParams(node, &p);
  if (result != CUDA_SUCCESS) return result;
  add(p.poolProps.allocType, p.poolProps.handleTypes, p.poolProps.location.type,
      static_cast<std::uint32_t>(p.poolProps.location.id), p.poolProps.maxSize, p.poolProps.usage,
      p.bytesize, p.dptr);
  for (std::size_t i = 0; i < p.accessDescCount && p.accessDescs != nullptr; ++i) {
    const auto& access = p.accessDescs[i];
    add(access.location.type, static_cast<std::uint32_t>(access.location.id), access.flags);
  }
  return CUDA_SUCCESS;
}

CUresult node_answer::ask(call_context& c, std::uint64_t node_id, CUgraphNode node,
                          CUgraphNodeType type) {
  const auto& d = c.driver();
  type_ = static_cast<std::uint32_t>(type);
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return ask_kernel(c, node);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return ask_copy(c, node);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS p{};
      if (d.cuGraphMemsetNodeGetParams == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      const auto result = d.cuGraphMemsetNodeGetParams(node, &p);
      add(0, p.dst, p.pitch, p.value, p.elementSize, p.width, p.height);
      return result;
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      CUDA_HOST_NODE_PARAMS p{};
      if (d.cuGraphHostNodeGetParams == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      const auto result = d.cuGraphHostNodeGetParams(node, &p);
      add(c.owner().callbacks.function_of(p.userData));
      return result;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      CUgraph inner = nullptr;
      if (d.cuGraphChildGraphNodeGetGraph == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      const auto result = d.cuGraphChildGraphNodeGetGraph(node, &inner);
      add(result == CUDA_SUCCESS ? c.owner().graphs.embedded(inner, node_id) : 0, 0);
      return result;
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
      CUevent event = nullptr;
      const auto get = type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ? d.cuGraphEventWaitNodeGetEvent
                                                             : d.cuGraphEventRecordNodeGetEvent;
      if (get == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      const auto result = get(node, &event);
      add(result == CUDA_SUCCESS ? c.owner().handles(handle_kind::event).id_of(event) : 0);
      return result;
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return ask_allocation(c, node);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: {
      CUdeviceptr address = 0;
      if (d.cuGraphMemFreeNodeGetParams == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      const auto result = d.cuGraphMemFreeNodeGetParams(node, &address);
      add(address);
      return result;
    }
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return ask_batch(c, node);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

void node_answer::tell(msg::graph_node_get::reply& r) const {
  auto& p = r.parameters.emplace_back();
  p.type = type_;
  p.words = {words_.data(), static_cast<std::uint32_t>(words_.size())};
  p.data = {data_.data(), data_.size()};
  r.kernel_name = name_;
  r.parameter_offsets = {layout_.offsets.data(),
                         static_cast<std::uint32_t>(layout_.offsets.size())};
  r.parameter_bytes = {layout_.bytes.data(), static_cast<std::uint32_t>(layout_.bytes.size())};
}

}  // namespace gpuwire::daemon
