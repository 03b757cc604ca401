// SPDX-License-Identifier: Apache-2.0
#include "shim/host_functions.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "shim/captures.hpp"
#include "shim/direct_memory.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/graph_memory.hpp"
#include "shim/log.hpp"
#include "wire/thread.hpp"

namespace gpuwire::shim {
namespace {

struct wanted_run {
  host_function function;
  std::uint64_t run = 0;
  CUresult result = CUDA_SUCCESS;
};

// Until it has run, what the program's memory will hold is open.
bool decides_memory(const host_function& f) {
  return f.once && !f.destructor;
}

class function_table {
 public:
  CUresult add(const host_function& f, std::uint64_t& id) {
    std::lock_guard lock(mutex_);
    if (!started_) {
      started_ = threads_.start(
          "gpuwire-callback", [this] { run_all(); }, wire::thread_stack::usual);
      if (!started_) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    id = ++last_id_;
    functions_.emplace(id, f);
    if (decides_memory(f)) pending_.fetch_add(1, std::memory_order_relaxed);
    return CUDA_SUCCESS;
  }

  std::optional<host_function> find(std::uint64_t id) {
    std::lock_guard lock(mutex_);
    const auto found = functions_.find(id);
    return found == functions_.end() ? std::nullopt : std::optional(found->second);
  }

  void forget(std::uint64_t id) {
    std::lock_guard lock(mutex_);
    const auto found = functions_.find(id);
    if (found == functions_.end()) return;
    if (decides_memory(found->second)) pending_.fetch_sub(1, std::memory_order_relaxed);
    functions_.erase(found);
  }

  void forget_context(std::uint32_t context) {
    std::lock_guard lock(mutex_);
    std::erase_if(functions_, [&](const auto& entry) {
      if (!decides_memory(entry.second) || entry.second.context != context) return false;
      pending_.fetch_sub(1, std::memory_order_relaxed);
      return true;
    });
  }

  void want(const msg::host_call::request& m) {
    std::lock_guard lock(mutex_);
    const auto found = functions_.find(m.id);
    if (found == functions_.end()) {
      log_debug("the server asks for host function {}, which is none", m.id);
      return;
    }
    wanted_.push_back({found->second, m.run, static_cast<CUresult>(m.result)});
    if (found->second.once) functions_.erase(found);
    changed_.notify_one();
  }

  bool pending() const { return pending_.load(std::memory_order_acquire) != 0; }

 private:
  void run_all() {
    detail::host_function_runs = true;
    for (;;) {
      std::optional<wanted_run> next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !wanted_.empty(); });
        next = wanted_.front();
        wanted_.pop_front();
      }
      const auto& f = next->function;
      // What was copied before it is there when it runs.
      if (state().client->settle_deliveries() != wire::error::ok) continue;
      if (f.callback != nullptr)
        f.callback(f.stream, next->result, f.argument);
      else
        f.function(f.argument);
      if (decides_memory(f)) pending_.fetch_sub(1, std::memory_order_release);
      send_sources_again();
      settle_host_writes();
      msg::host_call_done::request m;
      m.run = next->run;
      // A lost connection has told everybody already.
      if (state().client->notify(msg::host_call_done::call_id, 0, m) != wire::error::ok) continue;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  wire::thread_group threads_;
  bool started_ = false;
  std::uint64_t last_id_ = 0;
  std::unordered_map<std::uint64_t, host_function> functions_;
  std::deque<wanted_run> wanted_;
  std::atomic<std::uint64_t> pending_{0};
};

function_table& table() {
  static auto* the_table = new function_table;
  return *the_table;
}

CUresult launch(host_function f, const stream_target& target) {
  f.context = target.record != nullptr ? target.record->context.load(std::memory_order_relaxed)
                                       : self().context_index();
  // Before the function is registered and counted: the command is then certain to be sent.
  if (const CUresult r = detail::earlier_error(self()); r != CUDA_SUCCESS) return r;
  msg::host_function::request q;
  q.stream = target.id;
  q.callback = f.callback != nullptr;
  // A captured one runs with each launch of the graph.
  f.once = !any_capture();
  if (const CUresult r = register_host_function(f, q.id); r != CUDA_SUCCESS) return r;
  // The daemon counts two operations: see daemon/host_calls.cpp.
  CUresult r = count_operation(*target.credit, 0);
  if (r == CUDA_SUCCESS) r = post_operation<msg::host_function>(*target.credit, 0, q);
  if (r != CUDA_SUCCESS) forget_host_function(q.id);
  return r;
}

}  // namespace

CUresult register_host_function(const host_function& f, std::uint64_t& id) {
  return table().add(f, id);
}
void forget_host_function(std::uint64_t id) {
  table().forget(id);
}
std::optional<host_function> find_host_function(std::uint64_t id) {
  return table().find(id);
}
CUresult host_function_of_nodes(CUhostFn function, void* argument, std::uint64_t& id) {
  static std::mutex mutex;
  static auto* known = new std::map<std::pair<CUhostFn, void*>, std::uint64_t>;
  std::lock_guard lock(mutex);
  if (const auto found = known->find({function, argument}); found != known->end()) {
    id = found->second;
    return CUDA_SUCCESS;
  }
  host_function f;
  f.function = function;
  f.argument = argument;
  f.once = false;
  const CUresult r = register_host_function(f, id);
  if (r == CUDA_SUCCESS) known->emplace(std::pair(function, argument), id);
  return r;
}
void forget_host_functions_of(std::uint32_t context) {
  table().forget_context(context);
}
bool host_functions_pending() {
  return table().pending();
}
void take_host_call(const msg::host_call::request& m) {
  table().want(m);
}

namespace custom {

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  host_function f;
  f.function = fn;
  f.argument = userData;
  f.stream = hStream;
  return launch(f, target);
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                             unsigned int flags) {
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto target = find_stream(hStream);
  if (target.result != CUDA_SUCCESS) return target.result;
  host_function f;
  f.callback = callback;
  f.argument = userData;
  f.stream = hStream;
  return launch(f, target);
}

}  // namespace custom
}  // namespace gpuwire::shim
