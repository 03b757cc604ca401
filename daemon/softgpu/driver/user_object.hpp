// SPDX-License-Identifier: Apache-2.0
// User objects: counted references to something of the program's, whose destructor is called when
// the last is gone. Graphs hold references. Counts are guarded by graph_mutex().
#pragma once

#include <cstdint>

#include "cuda_api.hpp"
#include "handles.hpp"

namespace gpuwire::softgpu {

struct user_object {
  CUuserObject handle = nullptr;
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  std::uint64_t count = 0;
};

using object_table = handle_table<user_object, CUuserObject, handle_kind::user_object>;
object_table& user_objects();

void retain(user_object& which, unsigned count);
// With the last reference the handle goes. The destructor is called on a thread of the library,
// where CUDA may not be called, after the lock is free.
void release(user_object& which, unsigned count);

}  // namespace gpuwire::softgpu
