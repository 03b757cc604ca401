// SPDX-License-Identifier: Apache-2.0
#include "shim/graph_parameters.hpp"

#include <algorithm>

#include "shim/direct_memory.hpp"
#include "shim/graph_memory.hpp"
#include "shim/host_functions.hpp"
#include "shim/images.hpp"
#include "shim/memory.hpp"

namespace gpuwire::shim {
namespace {

// More operations or accesses than this no message has room for.
constexpr std::size_t list_max = 4096;

const kernel_details* details_of(const CUDA_KERNEL_NODE_PARAMS_v3& p) {
  const kernel_record* record = p.func != nullptr ? find_function(p.func) : find_kernel(p.kern);
  return record == nullptr ? nullptr : record->details.load(std::memory_order_acquire);
}

}  // namespace

CUDA_KERNEL_NODE_PARAMS_v3 as_v3(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
          p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    nullptr,     nullptr};
}
CUDA_KERNEL_NODE_PARAMS_v3 as_v3(const CUDA_KERNEL_NODE_PARAMS_v2& p) {
  return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
          p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    p.kern,      p.ctx};
}
CUDA_MEMSET_NODE_PARAMS_v2 as_v2(const CUDA_MEMSET_NODE_PARAMS_v1& p, CUcontext context) {
  return {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height, context};
}
CUDA_MEM_ALLOC_NODE_PARAMS_v2 as_v2(const CUDA_MEM_ALLOC_NODE_PARAMS_v1& p) {
  return {p.poolProps, p.accessDescs, p.accessDescCount, p.bytesize, p.dptr};
}
CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 as_v2(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1& p) {
  return {p.ctx, p.count, p.paramArray, p.flags};
}

CUresult graph_parameters::set(const CUDA_KERNEL_NODE_PARAMS_v3& p) {
  begin(CU_GRAPH_NODE_TYPE_KERNEL);
  const kernel_details* details = details_of(p);
  if (details == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (p.gridDimX == 0 || p.gridDimY == 0 || p.gridDimZ == 0 || p.blockDimX == 0 ||
      p.blockDimY == 0 || p.blockDimZ == 0)
    return CUDA_ERROR_INVALID_VALUE;
  add(id_of(p.func), id_of(p.kern), id_of(p.ctx), p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX,
      p.blockDimY, p.blockDimZ, p.sharedMemBytes);
  if (p.kernelParams != nullptr && p.extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (p.extra != nullptr) {
    const extra_block block = read_extra(p.extra);
    if (!block.valid) return CUDA_ERROR_INVALID_VALUE;
    data_.assign(block.data, block.data + block.bytes);
  } else {
    data_.resize(details->parameter_bytes);
    if (!pack_parameters(details->parameters, p.kernelParams, data_.data()))
      return CUDA_ERROR_INVALID_VALUE;
  }
  note_host_addresses(data_.data(), data_.size());
  return CUDA_SUCCESS;
}

CUresult graph_parameters::add_operand(CUmemorytype type, const std::size_t (&place)[4],
                                       const void* host, CUdeviceptr device, CUarray array,
                                       std::size_t pitch, std::size_t height) {
  for (const auto coordinate : place) add(coordinate);
  // With one address space the driver goes by where the address lies.
  if (type == CU_MEMORYTYPE_UNIFIED || type == CU_MEMORYTYPE_HOST) {
    const auto address = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device;
    const auto known = state().memory.find(address);
    const bool on_device = known && is_on_server(*known);
    if (type == CU_MEMORYTYPE_UNIFIED && !on_device) {
      type = CU_MEMORYTYPE_HOST;
      host = reinterpret_cast<const void*>(address);
    }
  }
  add(type, type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(host) : 0,
      type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? device : 0,
      type == CU_MEMORYTYPE_ARRAY ? id_of(array) : 0, pitch, height);
  return CUDA_SUCCESS;
}

CUresult graph_parameters::set(const CUDA_MEMCPY3D& p, CUcontext context) {
  begin(CU_GRAPH_NODE_TYPE_MEMCPY);
  copy_ = p;
  note_destination(p);
  add(id_of(context));
  const std::size_t from[4] = {p.srcXInBytes, p.srcY, p.srcZ, p.srcLOD};
  const std::size_t to[4] = {p.dstXInBytes, p.dstY, p.dstZ, p.dstLOD};
  if (p.reserved0 != nullptr || p.reserved1 != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = add_operand(p.srcMemoryType, from, p.srcHost, p.srcDevice, p.srcArray,
                                     p.srcPitch, p.srcHeight);
      r != CUDA_SUCCESS)
    return r;
  if (const CUresult r = add_operand(p.dstMemoryType, to, p.dstHost, p.dstDevice, p.dstArray,
                                     p.dstPitch, p.dstHeight);
      r != CUDA_SUCCESS)
    return r;
  add(p.WidthInBytes, p.Height, p.Depth);
  return CUDA_SUCCESS;
}

CUresult graph_parameters::set(const CUDA_MEMSET_NODE_PARAMS_v2& p) {
  begin(CU_GRAPH_NODE_TYPE_MEMSET);
  add(id_of(p.ctx), p.dst, p.pitch, p.value, p.elementSize, p.width, p.height);
  return CUDA_SUCCESS;
}

CUresult graph_parameters::set(const CUDA_HOST_NODE_PARAMS_v2& p) {
  begin(CU_GRAPH_NODE_TYPE_HOST);
  if (p.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t id = 0;
  const CUresult r = host_function_of_nodes(p.fn, p.userData, id);
  add(id);
  return r;
}

CUresult graph_parameters::set_child(CUgraph graph, unsigned ownership) {
  begin(CU_GRAPH_NODE_TYPE_GRAPH);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  add(id_of(graph), ownership);
  return CUDA_SUCCESS;
}

CUresult graph_parameters::set_empty() {
  begin(CU_GRAPH_NODE_TYPE_EMPTY);
  return CUDA_SUCCESS;
}

CUresult graph_parameters::set_event(CUgraphNodeType type, CUevent event) {
  begin(type);
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  add(id_of(event));
  return CUDA_SUCCESS;
}

CUresult graph_parameters::set(const CUDA_MEM_ALLOC_NODE_PARAMS_v2& p) {
  begin(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  if (p.accessDescCount > list_max || (p.accessDescCount != 0 && p.accessDescs == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  if (p.poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_INVALID_VALUE;
  if (p.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
      device_ordinal(p.poolProps.location.id) < 0)
    return CUDA_ERROR_INVALID_VALUE;
  const auto server_id = [](const CUmemLocation& at) {
    const int id = at.type == CU_MEM_LOCATION_TYPE_DEVICE ? device_ordinal(at.id) : at.id;
    return static_cast<std::uint32_t>(id);
  };
  add(p.poolProps.allocType, p.poolProps.handleTypes, p.poolProps.location.type,
      server_id(p.poolProps.location), p.poolProps.maxSize, p.poolProps.usage, p.bytesize, 0);
  for (std::size_t i = 0; i < p.accessDescCount; ++i) {
    const auto& access = p.accessDescs[i];
    add(access.location.type, server_id(access.location), access.flags);
  }
  return CUDA_SUCCESS;
}

CUresult graph_parameters::set_free(CUdeviceptr address) {
  begin(CU_GRAPH_NODE_TYPE_MEM_FREE);
  add(address);
  return CUDA_SUCCESS;
}

CUresult graph_parameters::set(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& p) {
  begin(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  if (p.count > list_max || (p.count != 0 && p.paramArray == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  add(id_of(p.ctx), p.flags);
  for (unsigned i = 0; i < p.count; ++i) {
    const auto& op = p.paramArray[i];
    switch (op.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64: {
        const bool wide = op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                          op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        add(op.operation, op.waitValue.address, wide ? op.waitValue.value64 : op.waitValue.value,
            op.waitValue.flags);
        break;
      }
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      case CU_STREAM_MEM_OP_BARRIER:
        add(op.operation, 0, 0, op.flushRemoteWrites.flags);
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult graph_parameters::set(const CUDA_CONDITIONAL_NODE_PARAMS& p) {
  begin(CU_GRAPH_NODE_TYPE_CONDITIONAL);
  if (p.size == 0 || p.size > list_max) return CUDA_ERROR_INVALID_VALUE;
  add(id_of(p.ctx), p.handle, p.type, p.size);
  return CUDA_SUCCESS;
}

CUresult graph_parameters::set(const CUgraphNodeParams& p) {
  if (std::any_of(std::begin(p.reserved0), std::end(p.reserved0), [](int r) { return r != 0; }) ||
      p.reserved2 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return set(p.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (p.memcpy.flags != 0 || p.memcpy.reserved != 0) return CUDA_ERROR_INVALID_VALUE;
      return set(p.memcpy.copyParams, p.memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return set(p.memset);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return set_child(p.graph.graph, static_cast<unsigned>(p.graph.ownership));
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return set_empty();
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return set_event(p.type, p.eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return set_event(p.type, p.eventRecord.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return set(p.alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return set_free(p.free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return set(p.memOp);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return set(p.conditional);
    case CU_GRAPH_NODE_TYPE_HOST:
      return set(p.host);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return refuse("a graph node of this type");
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace gpuwire::shim
