// SPDX-License-Identifier: Apache-2.0
// The parameters of graph nodes between wire and driver. What the words of each type mean is in
// graph.spec.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/call_context.hpp"
#include "wire/generated/messages_graph.hpp"
#include "wire/generated/messages_structs.hpp"

namespace gpuwire::daemon {

// Where each parameter of a kernel lies in its argument block, by the driver.
struct kernel_layout {
  std::vector<std::uint32_t> offsets, bytes;
  std::size_t block_bytes = 0;
};
CUresult ask_layout(const driver_table& d, CUfunction function, CUkernel kernel,
                    kernel_layout& out);

// What the client sent, as the driver takes it. Owns what the driver's structure points to.
class node_parameters {
 public:
  // Handles are translated through `c`. CUDA_SUCCESS, or why the driver is not even asked.
  CUresult read(call_context& c, const std::vector<msg::graph_node_parameters>& list);
  CUgraphNodeParams& driver() { return parameters_; }

 private:
  CUresult read_kernel(call_context& c, const msg::graph_node_parameters& p);
  CUresult read_copy(call_context& c);
  CUresult read_batch(call_context& c);
  CUresult read_allocation();
  CUresult read_operand(call_context& c, bool source);
  CUresult to_shadows(call_context& c);

  std::uint64_t word() { return at_ < words_.size ? words_[at_++] : 0; }
  template <class Value>
  void take(Value& out) {
    out = static_cast<Value>(word());
  }
  bool has(std::uint32_t count) const { return words_.size == count; }

  CUgraphNodeParams parameters_{};
  wire::array_view<std::uint64_t> words_;
  std::uint32_t at_ = 0;
  std::uint64_t source_host_ = 0, destination_host_ = 0;
  std::vector<std::byte> arguments_;
  std::vector<void*> pointers_;
  std::vector<CUstreamBatchMemOpParams> operations_;
  std::vector<CUmemAccessDesc> accesses_;
};

// What the driver says of a node, as the client is told. Owns what the message points to.
class node_answer {
 public:
  CUresult ask(call_context& c, std::uint64_t node_id, CUgraphNode node, CUgraphNodeType type);
  void tell(msg::graph_node_get::reply& r) const;

 private:
  CUresult ask_kernel(call_context& c, CUgraphNode node);
  CUresult ask_copy(call_context& c, CUgraphNode node);
  CUresult ask_batch(call_context& c, CUgraphNode node);
  CUresult ask_allocation(call_context& c, CUgraphNode node);
  template <class... Values>
  void add(Values... values) {
    (words_.push_back(static_cast<std::uint64_t>(values)), ...);
  }

  std::uint32_t type_ = 0;
  std::vector<std::uint64_t> words_;
  std::vector<std::byte> data_;
  std::string_view name_;
  kernel_layout layout_;
};

}  // namespace gpuwire::daemon
