// SPDX-License-Identifier: Apache-2.0
// Waits for and writes of single values by a stream.
#include <atomic>
#include <vector>

#include "capture.hpp"
#include "copy.hpp"
#include "guard.hpp"
#include "memop.hpp"
#include "scheduler.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

template <typename Value>
Value load(std::uint64_t address) {
  return std::atomic_ref<Value>(*reinterpret_cast<Value*>(address)).load(std::memory_order_acquire);
}

void check_address(CUdeviceptr address, std::uint64_t bytes) {
  require(address % bytes == 0);
  require(!is_pageable({address, side::device}, bytes));
}

template <typename Value>
operation wait_operation(CUdeviceptr address, Value value, unsigned flags) {
  const unsigned condition = flags & ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH);
  require(condition <= CU_STREAM_WAIT_VALUE_NOR);
  // Nothing here needs a flush of remote writes, but the device says that it cannot do one.
  require((flags & CU_STREAM_WAIT_VALUE_FLUSH) == 0, CUDA_ERROR_NOT_SUPPORTED);
  check_address(address, sizeof(Value));
  operation what;
  what.what = operation::kind::value_wait;
  what.ready = [address, value, condition] {
    const Value now = load<Value>(address);
    switch (condition) {
      // Cyclic, so that a counter may wrap around.
      case CU_STREAM_WAIT_VALUE_GEQ:
        return static_cast<std::make_signed_t<Value>>(now - value) >= 0;
      case CU_STREAM_WAIT_VALUE_EQ:
        return now == value;
      case CU_STREAM_WAIT_VALUE_AND:
        return (now & value) != 0;
      default:
        return static_cast<Value>(~(now | value)) != 0;
    }
  };
  return what;
}

template <typename Value>
operation write_operation(CUdeviceptr address, Value value, unsigned flags) {
  require((flags & ~static_cast<unsigned>(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)) == 0);
  check_address(address, sizeof(Value));
  operation what;
  what.what = operation::kind::work;
  what.run = [address, value] {
    std::atomic_ref<Value>(*reinterpret_cast<Value*>(address))
        .store(value, std::memory_order_release);
  };
  return what;
}

}  // namespace

namespace gpuwire::softgpu {

operation batch_operation(const CUstreamBatchMemOpParams& one) {
  switch (one.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return wait_operation<std::uint32_t>(one.waitValue.address, one.waitValue.value,
                                           one.waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return wait_operation<std::uint64_t>(one.waitValue.address, one.waitValue.value64,
                                           one.waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return write_operation<std::uint32_t>(one.writeValue.address, one.writeValue.value,
                                            one.writeValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return write_operation<std::uint64_t>(one.writeValue.address, one.writeValue.value64,
                                            one.writeValue.flags);
    case CU_STREAM_MEM_OP_BARRIER:
      return {};  // every operation is one
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      refuse(CUDA_ERROR_NOT_SUPPORTED);
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace gpuwire::softgpu

namespace {

CUresult submit(const std::shared_ptr<stream>& on,
                const std::vector<CUstreamBatchMemOpParams>& list) {
  std::vector<operation> all;
  for (const auto& one : list) all.push_back(batch_operation(one));
  if (is_capturing(*on)) {
    capture_node(on, batch_payload{on->in->shared_from_this(), list, 0});
    return CUDA_SUCCESS;
  }
  for (auto& one : all) scheduler::instance().submit(on, std::move(one));
  return CUDA_SUCCESS;
}

template <typename Value>
CUresult wait_value(CUstream handle, CUdeviceptr address, Value value, unsigned flags) {
  return initialised([&] {
    CUstreamBatchMemOpParams one{};
    constexpr bool wide = sizeof(Value) == 8;
    one.operation = wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
    one.waitValue.address = address;
    one.waitValue.value64 = value;
    one.waitValue.flags = flags;
    return submit(stream_of(handle), {one});
  });
}

template <typename Value>
CUresult write_value(CUstream handle, CUdeviceptr address, Value value, unsigned flags) {
  return initialised([&] {
    CUstreamBatchMemOpParams one{};
    constexpr bool wide = sizeof(Value) == 8;
    one.operation = wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
    one.writeValue.address = address;
    one.writeValue.value64 = value;
    one.writeValue.flags = flags;
    return submit(stream_of(handle), {one});
  });
}

CUresult batch(CUstream handle, unsigned count, const CUstreamBatchMemOpParams* list,
               unsigned flags) {
  return initialised([&] {
    auto on = stream_of(handle);
    require(list != nullptr && flags == 0 && count > 0 && count <= batch_operations_max);
    return submit(on, {list, list + count});
  });
}

}  // namespace

// The first revisions differ from the second only in needing to be enabled when the real driver is
// loaded.
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                             unsigned int flags) {
  return wait_value<std::uint32_t>(stream, address, value, flags);
}
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned int flags) {
  return wait_value<std::uint32_t>(stream, address, value, flags);
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                             unsigned int flags) {
  return wait_value<std::uint64_t>(stream, address, value, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned int flags) {
  return wait_value<std::uint64_t>(stream, address, value, flags);
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned int flags) {
  return write_value<std::uint32_t>(stream, address, value, flags);
}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned int flags) {
  return write_value<std::uint32_t>(stream, address, value, flags);
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                              unsigned int flags) {
  return write_value<std::uint64_t>(stream, address, value, flags);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned int flags) {
  return write_value<std::uint64_t>(stream, address, value, flags);
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* list,
                            unsigned int flags) {
  return batch(stream, count, list, flags);
}
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* list,
                               unsigned int flags) {
  return batch(stream, count, list, flags);
}
