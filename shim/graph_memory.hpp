// SPDX-License-Identifier: Apache-2.0
// Memory of this process that graphs copy from and to. The server has a shadow of it: before a
// launch what the graph reads is sent, after it what the graph wrote comes back as pushes, which
// are there before anything says that the launch is complete. A push is written only to memory that
// the program itself named as a destination.
//
// Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/entry.hpp"

namespace gpuwire::shim {

// The rows of one host operand of a copy.
struct host_box {
  std::uint64_t node = 0;
  bool source = false;
  std::uint64_t address = 0, width = 0, pitch = 0, rows = 0, slice = 0, depth = 0;
};

// Of one executable graph.
struct exec_memory {
  std::mutex mutex;
  std::vector<host_box> boxes;
  bool primed = false;  // the server has seen what the destinations held before
};

// The program named host memory as what a copy writes.
void note_destination(std::uint64_t address, std::uint64_t bytes);
void note_destination(const CUDA_MEMCPY3D& copy);

// A copy between host and device in a stream that may capture. Nothing: it does not capture, and
// the copy is an ordinary one.
std::optional<CUresult> captured_copy(bool to_device, CUdeviceptr device, const void* host,
                                      std::size_t bytes, const stream_target& target);

// The boxes that the server found in an executable graph.
void take_boxes(exec_record& exec, const wire::array_view<std::uint64_t>& words);
// A copy node of it was changed.
void change_boxes(exec_record& exec, CUgraphNode node, const CUDA_MEMCPY3D& copy);

// Sends what the launch will read. `delivery` is the number to launch with.
CUresult prepare_launch(exec_record& exec, std::uint64_t& delivery);

// Callback thread: a host function has run, and may have changed what running graphs will read.
void send_sources_again();
// Side thread.
void take_graph_data(const msg::graph_host_data::request& m);

}  // namespace gpuwire::shim
