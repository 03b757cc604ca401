// SPDX-License-Identifier: Apache-2.0
// User objects, alone and held by graphs.
#include <algorithm>

#include "graph.hpp"
#include "user_object.hpp"

using namespace gpuwire::softgpu;

namespace {

std::shared_ptr<user_object> object_of(CUuserObject handle) {
  auto found = user_objects().find(handle);
  require(found != nullptr);
  return found;
}

}  // namespace

CUresult cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy,
                            unsigned int initial_count, unsigned int flags) {
  return with_graphs([&] {
    // The one flag says that nothing may wait for the destructor, and has to be there.
    require(out != nullptr && destroy != nullptr && initial_count > 0 &&
            initial_count <= INT32_MAX && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    auto made = std::make_shared<user_object>();
    made->pointer = pointer;
    made->destroy = destroy;
    made->count = initial_count;
    made->handle = user_objects().mint();
    user_objects().insert(made->handle, made);
    *out = made->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  return with_graphs([&] {
    auto which = object_of(handle);
    require(count > 0 && count <= INT32_MAX);
    retain(*which, count);
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  return with_graphs([&] {
    auto which = object_of(handle);
    require(count > 0 && count <= which->count);
    release(*which, count);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned int count,
                                 unsigned int flags) {
  return with_graphs([&] {
    auto holder = graph_of(graph);
    auto which = object_of(handle);
    require(count > 0 && count <= INT32_MAX &&
            (flags & ~static_cast<unsigned>(CU_GRAPH_USER_OBJECT_MOVE)) == 0);
    if (flags == 0) {
      retain(*which, count);
    } else {
      require(count <= which->count);
    }
    holder->objects[which] += count;
    return CUDA_SUCCESS;
  });
}

// A graph gives up no more than it has: the caller's own references are the caller's.
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject handle, unsigned int count) {
  return with_graphs([&] {
    auto holder = graph_of(graph);
    auto which = object_of(handle);
    require(count > 0);
    auto held = holder->objects.find(which);
    require(held != holder->objects.end());
    const unsigned given_up = std::min(count, held->second);
    held->second -= given_up;
    if (held->second == 0) holder->objects.erase(held);
    release(*which, given_up);
    return CUDA_SUCCESS;
  });
}
