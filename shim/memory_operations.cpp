// SPDX-License-Identifier: Apache-2.0
// Operations on memory that a stream carries out without a kernel: batches of waits and writes,
// decompression; and the execution affinity of a context.
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"

namespace gpuwire::shim {
namespace {

constexpr unsigned memory_operations_max = 256;  // as cuda.h says
constexpr std::size_t decompressions_max = 8192;

bool encode(const CUstreamBatchMemOpParams& from, msg::stream_mem_op& to) {
  to.operation = static_cast<std::uint32_t>(from.operation);
  switch (from.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      to.address = from.waitValue.address;
      to.flags = from.waitValue.flags;
      to.value = from.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? from.waitValue.value
                                                                  : from.waitValue.value64;
      return true;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      to.address = from.writeValue.address;
      to.flags = from.writeValue.flags;
      to.value = from.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? from.writeValue.value
                                                                   : from.writeValue.value64;
      return true;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      to.flags = from.flushRemoteWrites.flags;
      return true;
    case CU_STREAM_MEM_OP_BARRIER:
      to.flags = from.memoryBarrier.flags;
      return true;
    default:
      return false;
  }
}

CUresult batch(CUstream stream, unsigned count, const CUstreamBatchMemOpParams* list,
               unsigned flags, bool second_revision) {
  const auto target = find_stream(stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (list == nullptr || count == 0 || count > memory_operations_max)
    return CUDA_ERROR_INVALID_VALUE;
  msg::stream_mem_ops::request q;
  q.stream = target.id;
  q.second_revision = second_revision;
  q.flags = flags;
  q.operations.resize(count);
  for (unsigned i = 0; i < count; ++i)
    if (!encode(list[i], q.operations[i])) return CUDA_ERROR_INVALID_VALUE;
  return call<msg::stream_mem_ops>(q).result;
}

}  // namespace

namespace custom {

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
                            CUstreamBatchMemOpParams* paramArray, unsigned int flags) {
  return batch(stream, count, paramArray, flags, false);
}
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                               CUstreamBatchMemOpParams* paramArray, unsigned int flags) {
  return batch(stream, count, paramArray, flags, true);
}

CUresult cuMemBatchDecompressAsync(CUmemDecompressParams* paramsArray, std::size_t count,
                                   unsigned int flags, std::size_t* errorIndex, CUstream stream) {
  const auto target = find_stream(stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (paramsArray == nullptr || count == 0 || count > decompressions_max)
    return CUDA_ERROR_INVALID_VALUE;
  msg::memory_decompress::request q;
  q.stream = target.id;
  q.flags = flags;
  q.index_wanted = errorIndex != nullptr;
  q.operations.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& from = paramsArray[i];
    auto& to = q.operations[i];
    to.source_bytes = from.srcNumBytes;
    to.destination_bytes = from.dstNumBytes;
    to.actual_bytes = reinterpret_cast<std::uint64_t>(from.dstActBytes);
    to.source = reinterpret_cast<std::uint64_t>(from.src);
    to.destination = reinterpret_cast<std::uint64_t>(from.dst);
    to.algorithm = static_cast<std::uint32_t>(from.algo);
  }
  const auto a = call<msg::memory_decompress>(q);
  if (errorIndex != nullptr && a.result != CUDA_SUCCESS) *errorIndex = a.body.failed_index;
  return a.result;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* pExecAffinity, CUexecAffinityType type) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (pExecAffinity == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::exec_affinity::request q;
  q.type = static_cast<std::uint32_t>(type);
  const auto a = call<msg::exec_affinity>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  pExecAffinity->type = type;
  pExecAffinity->param.smCount.val = a.body.value;
  return CUDA_SUCCESS;
}

}  // namespace custom
}  // namespace gpuwire::shim
