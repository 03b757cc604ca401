// SPDX-License-Identifier: Apache-2.0
#include "shim/entry.hpp"

#include <mutex>
#include <set>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "shim/connection.hpp"
#include "shim/log.hpp"
#include "shim/logs.hpp"
#include "shim/options.hpp"
#include "shim/result.hpp"

namespace gpuwire::shim {
namespace detail {

thread_local bool host_function_runs __attribute__((tls_model("initial-exec"))) = false;

CUresult admit_slowly(const char* name, CUresult before_init) {
  switch (guard::now()) {
    case phase::initialised:
      return host_function_runs ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
    case phase::lost:
      return lost_connection_result;
    case phase::ended:
      return CUDA_ERROR_DEINITIALIZED;
    case phase::untouched:
    case phase::connected:
      break;
  }
  if (guard::in_forked_child()) {
    log_debug("{} in a child of fork whose parent uses CUDA: not initialised", name);
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  return before_init == CUDA_SUCCESS ? CUDA_ERROR_NOT_INITIALIZED : before_init;
}

CUresult exception_result(const char* name) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    log_debug("{}: out of host memory", name);
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    log_debug("{}: {}", name, e.what());
    return CUDA_ERROR_UNKNOWN;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

void say_failure(const char* name, CUresult result) {
  if (result == CUDA_ERROR_NOT_READY) return;  // an answer rather than a failure
  // The parent may have been inside the log when it forked.
  if (guard::in_forked_child()) return;
  note_failure(name, result);
  if (debug_log_wanted()) log_debug("{} gives {}", name, static_cast<int>(result));
}

CUresult earlier_error(thread_state& t) {
  const context_record* context = t.current();
  if (context != nullptr)
    if (const int sticky = context->sticky.load(std::memory_order_acquire); sticky != 0)
      return static_cast<CUresult>(sticky);
  if (t.record == nullptr || t.record->error.load(std::memory_order_relaxed) == 0) [[likely]]
    return CUDA_SUCCESS;
  const auto of = t.record->error_context.load(std::memory_order_relaxed);
  if (of != 0 && of != t.context_index()) return CUDA_SUCCESS;
  return static_cast<CUresult>(t.record->error.exchange(0, std::memory_order_acquire));
}

wire::reply take_reply(thread_state& t) {
  if (t.spare_replies.empty()) return {};
  wire::reply r = std::move(t.spare_replies.back());
  t.spare_replies.pop_back();
  return r;
}

CUresult transport_result(wire::error transport) {
  const auto& client = *state().client;
  if (client.state() != wire::error::ok && client.state() != wire::error::shut_down)
    tell_connection_lost(client.state_text());
  return result_from(transport);
}

CUresult result_of(thread_state& t, wire::error transport, const wire::reply& r,
                   bool watch_context) {
  if (transport != wire::error::ok) return transport_result(transport);
  const auto result = static_cast<CUresult>(r.result);
  if (watch_context && is_sticky(result) && t.current_is_alive()) {
    explain_illegal_address(result);
    t.current()->sticky.store(result, std::memory_order_release);
  }
  return result;
}

bool posting_waits() {
  static const bool waits = synchronous_wanted();
  // While a stream captures, natively any call may be refused at once.
  return waits || state().captures.load(std::memory_order_relaxed) != 0;
}

void reply_is_malformed(const char* name) {
  write_line(std::string("the server's answer to ") + name +
             " cannot be understood; client and server do not fit");
}

// ---- the cache of answers ----

namespace {

struct view_hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
using answers_of_call =
    std::unordered_map<std::string, std::shared_ptr<const std::vector<std::byte>>, view_hash,
                       std::equal_to<>>;

struct answer_cache {
  std::shared_mutex mutex;
  std::uint64_t epoch = 0;  // counts what was forgotten
  std::unordered_map<std::uint16_t, answers_of_call> calls;
};

answer_cache& cache() {
  static auto* the_cache = new answer_cache;
  return *the_cache;
}

}  // namespace

std::shared_ptr<const std::vector<std::byte>> find_cached(std::uint16_t call,
                                                          std::string_view key) {
  auto& c = cache();
  std::shared_lock lock(c.mutex);
  const auto of_call = c.calls.find(call);
  if (of_call == c.calls.end()) return nullptr;
  const auto found = of_call->second.find(key);
  if (found == of_call->second.end()) return nullptr;
  if (counting.load(std::memory_order_relaxed)) count_cached_answer();
  return found->second;
}

std::uint64_t cache_epoch() {
  auto& c = cache();
  std::shared_lock lock(c.mutex);
  return c.epoch;
}

void keep_cached(std::uint16_t call, std::string_view key, std::uint64_t epoch,
                 std::vector<std::byte> body) {
  auto& c = cache();
  auto kept = std::make_shared<const std::vector<std::byte>>(std::move(body));
  std::unique_lock lock(c.mutex);
  if (c.epoch == epoch) c.calls[call].insert_or_assign(std::string(key), std::move(kept));
}

}  // namespace detail

void forget_cached(std::uint16_t call_id) {
  auto& c = detail::cache();
  std::unique_lock lock(c.mutex);
  ++c.epoch;
  c.calls.erase(call_id);
}

void forget_all_cached() {
  auto& c = detail::cache();
  std::unique_lock lock(c.mutex);
  ++c.epoch;
  c.calls.clear();
}

CUresult refuse(const char* name) {
  if (const CUresult r = admit(name, CUDA_ERROR_NOT_INITIALIZED); r != CUDA_SUCCESS) return r;
  if (!debug_log_wanted()) return CUDA_ERROR_NOT_SUPPORTED;
  static std::mutex mutex;
  static auto* said = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (said->insert(name).second) log_debug("{} is not supported", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult need_context() {
  const thread_state& t = self();
  if (t.stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  return t.current_is_alive() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

std::int32_t device_ordinal(CUdevice device) {
  const auto& devices = state().devices;
  return device >= 0 && static_cast<std::size_t>(device) < devices.size()
             ? devices[static_cast<std::size_t>(device)].server_ordinal
             : -1;
}

CUresult count_operation(stream_credit& credit, std::uint64_t copy_bytes) {
  process_state& s = state();
  const bool room = s.credits.issue(credit, copy_bytes, [&s] {
    s.counts.credit_waits.fetch_add(1, std::memory_order_relaxed);
    // A connection that is lost closes the desk, which ends the wait.
    if (s.client->flush() != wire::error::ok) return;
  });
  return room ? CUDA_SUCCESS : lost_connection_result;
}

}  // namespace gpuwire::shim
