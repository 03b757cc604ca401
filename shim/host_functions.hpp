// SPDX-License-Identifier: Apache-2.0
// Functions of the program that run when the GPU's work gets to them. Only a number goes to the
// server; the table here says which function it is, so that nothing is ever called because of an
// address from the wire. They run one after the other, in the order in which the server asks, on a
// thread of their own, where calls to CUDA are not permitted, as natively.
//
// Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "wire/generated/messages_host.hpp"

namespace gpuwire::shim {

struct host_function {
  CUhostFn function = nullptr;          // one of the two
  CUstreamCallback callback = nullptr;  // of cuStreamAddCallback
  void* argument = nullptr;
  CUstream stream = nullptr;  // as the program named it
  std::uint32_t context = 0;  // index of the stream's
  bool once = true;           // forgotten with its run; else by forget_host_function()
  bool destructor = false;    // of a user object, which decides over no memory of the GPU's
};

// The number for the server. Starts the thread when there is none yet: CUDA_ERROR_OUT_OF_MEMORY if
// the system refuses one.
CUresult register_host_function(const host_function& f, std::uint64_t& id);
void forget_host_function(std::uint64_t id);
// For graph nodes: a function keeps its number as long as the process lives.
CUresult host_function_of_nodes(CUhostFn function, void* argument, std::uint64_t& id);
// Nothing for a number that is none.
std::optional<host_function> find_host_function(std::uint64_t id);

// A context is gone: what was launched in it and did not run will not.
void forget_host_functions_of(std::uint32_t context);

// Functions registered with `once` whose run is not over. While there are any, what the program's
// memory will hold when a stream gets to a copy is not known yet.
bool host_functions_pending();

// Side thread: the server asks for a run.
void take_host_call(const msg::host_call::request& m);

}  // namespace gpuwire::shim
