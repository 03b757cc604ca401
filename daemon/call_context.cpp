// SPDX-License-Identifier: Apache-2.0
#include "daemon/call_context.hpp"

#include "daemon/executor.hpp"

namespace gpuwire::daemon {

outcome call_context::wait(pending_wait w) {
  w.ticket = ticket_;
  if (executor_ != nullptr)
    executor_->hold(std::move(w));
  else
    finish_wait(worker_, std::move(w));
  return outcome::deferred;
}

stream_reference call_context::stream_of(std::uint64_t id) {
  switch (id) {
    case stream_legacy:
      return {nullptr, ticket_.context};
    case stream_legacy_by_name:
      return {CU_STREAM_LEGACY, ticket_.context};
    case stream_per_thread: {
      auto problem = CUDA_SUCCESS;
      if (ticket_.context == 0) {
        fail(CUDA_ERROR_INVALID_CONTEXT);
        return {};
      }
      const auto stream = worker_.streams_of_threads.get(ticket_.lane, ticket_.context, problem);
      if (problem != CUDA_SUCCESS) fail(problem);
      return {stream, ticket_.context};
    }
    default:
      break;
  }
  const auto found = worker_.handles(handle_kind::stream).find(id);
  if (!found) {
    fail(CUDA_ERROR_INVALID_HANDLE);
    return {};
  }
  return {static_cast<CUstream>(found->native), found->context};
}

CUfunction call_context::function(std::uint64_t id) {
  const auto kind = static_cast<handle_kind>(wire::handle_kind_of(id));
  if (kind != handle_kind::kernel) return loaded(native<handle_kind::function>(id));
  // The driver takes a kernel wherever it takes a function.
  return reinterpret_cast<CUfunction>(native<handle_kind::kernel>(id));
}

// A client's function is one that cuModuleGetFunction gave it, which loads it; ours may come from
// an enumeration, which does not.
CUfunction call_context::loaded(CUfunction function) {
  const auto& d = driver();
  auto state = CU_FUNCTION_LOADING_STATE_LOADED;
  if (function == nullptr || d.cuFuncIsLoaded == nullptr || d.cuFuncLoad == nullptr)
    return function;
  capture_mode_scope relaxed(d, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (d.cuFuncIsLoaded(&state, function) == CUDA_SUCCESS &&
      state == CU_FUNCTION_LOADING_STATE_UNLOADED) {
    if (const auto result = d.cuFuncLoad(function); result != CUDA_SUCCESS) fail(result);
  }
  return function;
}

void* call_context::find(handle_kind kind, std::uint64_t id) {
  if (id == 0) return nullptr;  // the driver has its own answer for null
  const auto& table = worker_.handles(kind);
  if (const auto found = table.find(id)) {
    if (kind == handle_kind::library || kind == handle_kind::module ||
        kind == handle_kind::kernel) {
      // What comes out of this call belongs to the same image.
      image_ = kind == handle_kind::library ? id : 0;
      if (image_ == 0) image_ = table.parent_of(id);
      if (image_ == 0 && kind == handle_kind::module) image_ = id;
    }
    return found->native;
  }
  switch (kind) {
    case handle_kind::context:
      fail(table.is_stale(id) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT);
      break;
    case handle_kind::graph:
    case handle_kind::graph_node:
    case handle_kind::graph_exec:
    case handle_kind::user_object:
    case handle_kind::pool:
    case handle_kind::allocation:
      fail(CUDA_ERROR_INVALID_VALUE);  // the driver's answer to a null one
      break;
    default:
      fail(CUDA_ERROR_INVALID_HANDLE);
  }
  return nullptr;
}

std::uint64_t call_context::mint(handle_kind kind, void* native) {
  handle_owner owner;
  switch (kind) {
    case handle_kind::context:
    case handle_kind::library:
    case handle_kind::kernel:
    case handle_kind::graph:
    case handle_kind::graph_node:
    case handle_kind::graph_exec:
    case handle_kind::user_object:
      break;  // none of these dies with a context
    default:
      owner.context = ticket_.context;
  }
  if (kind == handle_kind::kernel || kind == handle_kind::function || kind == handle_kind::module)
    owner.parent = image_;
  return worker_.handles(kind).mint(native, owner);
}

void call_context::count_operation(std::uint64_t stream_id, const stream_reference& s,
                                   std::uint64_t bytes) {
  worker_.direct.work_issued();
  credit_key key;
  key.stream = stream_id == stream_legacy_by_name ? stream_legacy : stream_id;
  if (key.stream == stream_legacy || key.stream == stream_per_thread) key.context = ticket_.context;
  if (key.stream == stream_per_thread) key.lane = ticket_.lane;
  worker_.credits.count(key, bytes, s.native, s.context);
}

}  // namespace gpuwire::daemon
