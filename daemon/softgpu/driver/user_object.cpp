// SPDX-License-Identifier: Apache-2.0
#include "user_object.hpp"

#include "graph.hpp"
#include "threads.hpp"

namespace gpuwire::softgpu {

object_table& user_objects() {
  static auto* table = new object_table;
  return *table;
}

void retain(user_object& which, unsigned count) {
  which.count += count;
}

void release(user_object& which, unsigned count) {
  which.count -= count;
  if (which.count != 0) return;
  user_objects().remove(which.handle);
  start_thread("gpuwire-object", [destroy = which.destroy, pointer = which.pointer] {
    inside_host_function = true;
    destroy(pointer);
  });
}

}  // namespace gpuwire::softgpu
