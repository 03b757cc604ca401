// SPDX-License-Identifier: Apache-2.0
// Batches of waits and writes, decompression, and the execution affinity of a context. All
// addresses are the GPU's.
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"

namespace gpuwire::daemon::custom {
namespace {

constexpr std::size_t memory_operations_max = 256;
constexpr std::size_t decompressions_max = 8192;

bool decode(const msg::stream_mem_op& from, CUstreamBatchMemOpParams& to) {
  to = {};
  to.operation = static_cast<CUstreamBatchMemOpType>(from.operation);
  switch (from.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      to.waitValue.address = from.address;
      to.waitValue.value64 = from.value;
      to.waitValue.flags = from.flags;
      return true;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      to.writeValue.address = from.address;
      to.writeValue.value64 = from.value;
      to.writeValue.flags = from.flags;
      return true;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      to.flushRemoteWrites.flags = from.flags;
      return true;
    case CU_STREAM_MEM_OP_BARRIER:
      to.memoryBarrier.flags = from.flags;
      return true;
    default:
      return false;
  }
}

}  // namespace

outcome stream_mem_ops(call_context& c, const msg::stream_mem_ops::request& q) {
  using call = msg::stream_mem_ops;
  const auto& d = c.driver();
  const auto stream = c.stream(q.stream);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (q.operations.empty() || q.operations.size() > memory_operations_max)
    return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  std::vector<CUstreamBatchMemOpParams> list(q.operations.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!decode(q.operations[i], list[i])) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  const auto batch = q.second_revision ? d.cuStreamBatchMemOp_v2 : d.cuStreamBatchMemOp;
  if (batch == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const auto result = batch(stream, static_cast<unsigned>(list.size()), list.data(), q.flags);
  return c.finish<call>(result, {});
}

outcome memory_decompress(call_context& c, const msg::memory_decompress::request& q) {
  using call = msg::memory_decompress;
  const auto& d = c.driver();
  const auto stream = c.stream(q.stream);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (d.cuMemBatchDecompressAsync == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  if (q.operations.empty() || q.operations.size() > decompressions_max)
    return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  std::vector<CUmemDecompressParams> list(q.operations.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto& from = q.operations[i];
    auto& to = list[i];
    to = {};
    to.srcNumBytes = from.source_bytes;
    to.dstNumBytes = from.destination_bytes;
    to.dstActBytes = reinterpret_cast<cuuint32_t*>(from.actual_bytes);
    to.src = reinterpret_cast<const void*>(from.source);
    to.dst = reinterpret_cast<void*>(from.destination);
    if (from.algorithm > CU_MEM_DECOMPRESS_ALGORITHM_LZ4)
      return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
    to.algo = static_cast<CUmemDecompressAlgorithm>(from.algorithm);
  }
  std::size_t index = 0;
  call::reply r;
  const auto result = d.cuMemBatchDecompressAsync(list.data(), list.size(), q.flags,
                                                  q.index_wanted ? &index : nullptr, stream);
  r.failed_index = index;
  return c.finish<call>(result, r);
}

outcome exec_affinity(call_context& c, const msg::exec_affinity::request& q) {
  using call = msg::exec_affinity;
  const auto function = c.driver().cuCtxGetExecAffinity;
  if (function == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  if (q.type >= CU_EXEC_AFFINITY_TYPE_MAX) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  CUexecAffinityParam value{};
  const auto result = function(&value, static_cast<CUexecAffinityType>(q.type));
  call::reply r;
  r.value = value.param.smCount.val;
  return c.finish<call>(result, r);
}

}  // namespace gpuwire::daemon::custom
