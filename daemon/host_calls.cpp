// SPDX-License-Identifier: Apache-2.0
#include "daemon/host_calls.hpp"

#include <condition_variable>

#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/word_pages.hpp"
#include "daemon/worker.hpp"
#include "wire/generated/messages_host.hpp"

namespace gpuwire::daemon {

// On the stack of a trampoline.
struct host_calls::waiting_run {
  std::condition_variable changed;
  bool done = false;
};

host_calls::record* host_calls::add(std::unique_ptr<record> r) {
  auto* raw = r.get();
  raw->owner = this;
  std::lock_guard lock(mutex_);
  if (raw->gate) {
    raw->run = ++last_run_;
    gates_[raw->run] = raw;
  }
  records_[raw] = std::move(r);
  return raw;
}

void host_calls::drop(record* r) {
  std::lock_guard lock(mutex_);
  if (r->run != 0) gates_.erase(r->run);
  records_.erase(r);
}

CUresult host_calls::launch(std::uint64_t id, bool callback, const stream_reference& s) {
  const auto& d = worker_.driver();
  if (callback ? d.cuStreamAddCallback == nullptr : d.cuLaunchHostFunc == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  // The daemon adds nothing of its own to a capture.
  if (worker_.captures.any() && worker_.captures.touches(s.native))
    return launch_trampoline(id, callback, s, false);
  if (d.cuStreamWaitValue32_v2 != nullptr) {
    if (auto gate = worker_.words.take(s.context))
      return launch_gate(id, callback, s, std::move(gate));
  }
  return launch_trampoline(id, callback, s, true);
}

CUresult host_calls::launch_gate(std::uint64_t id, bool callback, const stream_reference& s,
                                 std::shared_ptr<counter_word> gate) {
  const auto& d = worker_.driver();
  const auto value = ++gate->value;
  auto fresh = std::make_unique<record>();
  fresh->id = id;
  fresh->context = s.context;
  fresh->gate = gate;
  auto* r = add(std::move(fresh));
  const auto result = callback ? d.cuStreamAddCallback(s.native, &tell_callback, r, 0)
                               : d.cuLaunchHostFunc(s.native, &tell_function, r);
  if (result != CUDA_SUCCESS) {
    drop(r);
    return result;
  }
  // The answer may have come already; then the word is open and the stream passes.
  return d.cuStreamWaitValue32_v2(s.native, gate->device, value, CU_STREAM_WAIT_VALUE_GEQ);
}

CUresult host_calls::launch_trampoline(std::uint64_t id, bool callback, const stream_reference& s,
                                       bool once) {
  const auto& d = worker_.driver();
  auto fresh = std::make_unique<record>();
  fresh->id = id;
  fresh->context = once ? s.context : 0;  // a graph may outlive the context it was captured in
  fresh->once = once;
  auto* r = add(std::move(fresh));
  const auto result = callback ? d.cuStreamAddCallback(s.native, &hold_callback, r, 0)
                               : d.cuLaunchHostFunc(s.native, &hold_function, r);
  if (result != CUDA_SUCCESS) drop(r);
  return result;
}

host_calls::trampoline host_calls::make_trampoline(std::uint64_t id) {
  auto fresh = std::make_unique<record>();
  fresh->id = id;
  return {&hold_function, add(std::move(fresh))};
}

host_calls::trampoline host_calls::shared_trampoline(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  auto& known = shared_[id];
  if (known == nullptr) {
    auto fresh = std::make_unique<record>();
    fresh->owner = this;
    fresh->id = id;
    known = fresh.get();
    records_[known] = std::move(fresh);
  }
  return {&hold_function, known};
}

std::uint64_t host_calls::function_of(const void* data) {
  std::lock_guard lock(mutex_);
  const auto found = records_.find(const_cast<void*>(data));
  return found == records_.end() ? 0 : found->second->id;
}

void host_calls::drop_trampoline(void* data) {
  std::lock_guard lock(mutex_);
  records_.erase(data);
}

// What was copied into the client's memory before the function must be there when it runs.
void host_calls::tell_after_deliveries(std::uint64_t id, std::uint64_t run, CUresult result) {
  if (!worker_.deliveries_to_client.any()) return tell(id, run, result);
  worker_.deliveries_to_client.when_settled([this, id, run, result] { tell(id, run, result); });
}

void host_calls::tell(std::uint64_t id, std::uint64_t run, CUresult result) {
  if (worker_.graph_data.any()) worker_.graph_data.deliver_so_far();
  // The function may look at what the work before it wrote.
  worker_.direct.publish();
  msg::host_call::request m;
  m.id = id;
  m.run = run;
  m.result = static_cast<std::int32_t>(result);
  (void)worker_.session->push(m, msg::host_call::call_id);
}

void CUDA_CB host_calls::tell_function(void* data) {
  const auto* r = static_cast<record*>(data);
  r->owner->tell_after_deliveries(r->id, r->run, CUDA_SUCCESS);
}

void CUDA_CB host_calls::tell_callback(CUstream, CUresult result, void* data) {
  const auto* r = static_cast<record*>(data);
  r->owner->tell_after_deliveries(r->id, r->run, result);
}

void CUDA_CB host_calls::hold_function(void* data) {
  auto* r = static_cast<record*>(data);
  r->owner->hold(*r, CUDA_SUCCESS);
}

void CUDA_CB host_calls::hold_callback(CUstream, CUresult result, void* data) {
  auto* r = static_cast<record*>(data);
  r->owner->hold(*r, result);
}

void host_calls::hold(record& r, CUresult result) {
  waiting_run own;
  std::uint64_t run = 0;
  {
    std::lock_guard lock(mutex_);
    run = ++last_run_;
    waiting_[run] = &own;
  }
  tell_after_deliveries(r.id, run, result);
  {
    // A session that is over ends the worker, and with it this wait.
    std::unique_lock lock(mutex_);
    own.changed.wait(lock, [&own] { return own.done; });
    waiting_.erase(run);
  }
  if (r.once) drop(&r);
}

void host_calls::done(std::uint64_t run) {
  std::unique_ptr<record> ended;
  std::lock_guard lock(mutex_);
  if (const auto held = waiting_.find(run); held != waiting_.end()) {
    held->second->done = true;
    held->second->changed.notify_one();
    return;
  }
  const auto found = gates_.find(run);
  if (found == gates_.end()) return;
  found->second->gate->open();
  const auto place = records_.find(found->second);
  gates_.erase(found);
  ended = std::move(place->second);
  records_.erase(place);
}

void host_calls::context_gone(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  std::erase_if(records_, [&](const auto& entry) {
    const record& r = *entry.second;
    if (r.context != context) return false;
    if (r.run != 0) gates_.erase(r.run);
    return true;
  });
}

namespace custom {

outcome host_function(call_context& c, const msg::host_function::request& q) {
  const auto s = c.stream_of(q.stream);
  auto result = c.failure();
  if (result == CUDA_SUCCESS) {
    c.enter(s.context);
    result = c.owner().callbacks.launch(q.id, q.callback, s);
  }
  // Two, because a gate is a second one in the driver's channel.
  c.count_operation(q.stream, s);
  c.count_operation(q.stream, s);
  return c.finish<msg::host_function>(result, {});
}

}  // namespace custom
}  // namespace gpuwire::daemon
