// SPDX-License-Identifier: Apache-2.0
#include "tables.hpp"

#include <map>

#include "capture.hpp"
#include "guard.hpp"
#include "scheduler.hpp"

namespace gpuwire::softgpu {
namespace {

// The thread's own default stream in each context (by unique id, so not that of a context before a
// reset). The streams of a thread that has ended are dropped once they are idle.
struct own_streams {
  std::map<std::uint64_t, std::shared_ptr<stream>> by_context;
  ~own_streams() {
    // In the child of a fork the scheduler's lock may be held by a thread that is not there.
    if (driver_state != process_state::ready) return;
    for (const auto& [id, one] : by_context) {
      leave_capture(*one);
      scheduler::instance().destroy_stream(one);
    }
  }
};

std::shared_ptr<stream> own_stream(const std::shared_ptr<context>& in) {
  thread_local own_streams mine;
  auto& one = mine.by_context[in->unique_id];
  if (!one) {
    auto made = std::make_shared<stream>();
    made->owner = in;
    made->in = in.get();
    made->handle = CU_STREAM_PER_THREAD;
    made->id = next_unique_id();
    scheduler::instance().add_stream(*in, made);
    one = std::move(made);
  }
  return one;
}

}  // namespace

thread_local bool null_stream_is_own = false;

stream_table& streams_table() {
  static auto* table = new stream_table;
  return *table;
}

event_table& events() {
  static auto* table = new event_table;
  return *table;
}

std::shared_ptr<stream> default_stream(context& current) {
  return null_stream_is_own ? own_stream(current.shared_from_this()) : current.legacy;
}

std::shared_ptr<stream> any_stream_of(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    auto current = live_context();
    const bool own = handle == CU_STREAM_PER_THREAD || (handle == nullptr && null_stream_is_own);
    return own ? own_stream(current) : current->legacy;
  }
  require(!inside_host_function, CUDA_ERROR_NOT_PERMITTED);
  auto found = streams_table().find(handle);
  require(found != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return found;
}

std::shared_ptr<stream> stream_of(CUstream handle) {
  auto found = any_stream_of(handle);
  require(found->in->error() == CUDA_SUCCESS, found->in->error());
  return found;
}

std::shared_ptr<event> event_of(CUevent handle) {
  require(!inside_host_function, CUDA_ERROR_NOT_PERMITTED);
  auto found = events().find(handle);
  require(found != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return found;
}

}  // namespace gpuwire::softgpu
