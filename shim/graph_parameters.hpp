// SPDX-License-Identifier: Apache-2.0
// The parameters of graph nodes: CUDA's structures taken apart for the wire and put together again.
// What the words of each type of node mean is in graph.spec.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/entry.hpp"

namespace gpuwire::shim {

// One node's parameters on their way to the server; owns what the message points to. Each set
// function returns what the driver says to parameters that it refuses before it looks at the graph.
class graph_parameters {
 public:
  CUresult set(const CUgraphNodeParams& p);
  CUresult set(const CUDA_KERNEL_NODE_PARAMS_v3& p);
  CUresult set(const CUDA_MEMCPY3D& copy, CUcontext context);
  CUresult set(const CUDA_MEMSET_NODE_PARAMS_v2& p);
  CUresult set(const CUDA_HOST_NODE_PARAMS_v2& p);
  CUresult set_child(CUgraph graph, unsigned ownership);
  CUresult set_empty();
  CUresult set_event(CUgraphNodeType type, CUevent event);
  CUresult set(const CUDA_MEM_ALLOC_NODE_PARAMS_v2& p);
  CUresult set_free(CUdeviceptr address);
  CUresult set(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& p);
  CUresult set(const CUDA_CONDITIONAL_NODE_PARAMS& p);

  // Of a copy node, as it was set; null for another.
  const CUDA_MEMCPY3D* copy() const {
    return type_ == CU_GRAPH_NODE_TYPE_MEMCPY ? &copy_ : nullptr;
  }

  template <class Request>
  void give(Request& q) {
    q.parameters.resize(1);
    auto& one = q.parameters.front();
    one.type = type_;
    one.words = {words_.data(), static_cast<std::uint32_t>(words_.size())};
    one.data = {data_.data(), data_.size()};
  }

 private:
  void begin(CUgraphNodeType type) {
    type_ = static_cast<std::uint32_t>(type);
    words_.clear();
    data_.clear();
  }
  template <class... Values>
  void add(Values... values) {
    (words_.push_back(static_cast<std::uint64_t>(values)), ...);
  }
  CUresult add_operand(CUmemorytype type, const std::size_t (&place)[4], const void* host,
                       CUdeviceptr device, CUarray array, std::size_t pitch, std::size_t height);

  std::uint32_t type_ = 0;
  CUDA_MEMCPY3D copy_{};
  std::vector<std::uint64_t> words_;
  std::vector<std::byte> data_;
};

// The first form of the kernel structure has no kernel and no context.
CUDA_KERNEL_NODE_PARAMS_v3 as_v3(const CUDA_KERNEL_NODE_PARAMS_v1& p);
CUDA_KERNEL_NODE_PARAMS_v3 as_v3(const CUDA_KERNEL_NODE_PARAMS_v2& p);
CUDA_MEMSET_NODE_PARAMS_v2 as_v2(const CUDA_MEMSET_NODE_PARAMS_v1& p, CUcontext context);
CUDA_MEM_ALLOC_NODE_PARAMS_v2 as_v2(const CUDA_MEM_ALLOC_NODE_PARAMS_v1& p);
CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 as_v2(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1& p);

// Reads the words of an answer one after the other; a list that is too short gives zeros.
class word_reader {
 public:
  explicit word_reader(const wire::array_view<std::uint64_t>& words) : words_(words) {}
  std::uint64_t next() { return at_ < words_.size ? words_[at_++] : 0; }
  std::size_t left() const { return words_.size - at_; }
  template <class Value>
  void operator()(Value& out) {
    if constexpr (std::is_pointer_v<Value>)
      out = reinterpret_cast<Value>(next());
    else
      out = static_cast<Value>(next());
  }

 private:
  wire::array_view<std::uint64_t> words_;
  std::size_t at_ = 0;
};

}  // namespace gpuwire::shim
