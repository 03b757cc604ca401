// SPDX-License-Identifier: Apache-2.0
// What every entry point goes through, generated or handwritten: the check where the process
// stands, the call or post of a message, what may come back instead of the answer. No exception
// leaves enter().
//
// An answer's views live as long as the answer.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shim/direct_memory.hpp"
#include "shim/fork_guard.hpp"
#include "shim/statistics.hpp"
#include "shim/thread.hpp"
#include "wire/generated/messages.hpp"

#define GPUWIRE_EXPORT __attribute__((visibility("default")))

namespace gpuwire::shim {

// ---- where the process stands ----

namespace detail {
CUresult admit_slowly(const char* name, CUresult before_init);
// True in the thread that runs the program's host functions, which may not call CUDA.
extern thread_local bool host_function_runs __attribute__((tls_model("initial-exec")));
CUresult exception_result(const char* name);
void say_failure(const char* name, CUresult result);  // with GPUWIRE_LOG=debug
}  // namespace detail

// Success if the process is initialised, else the code to return.
inline CUresult admit(const char* name, CUresult before_init) {
  if (guard::now() == phase::initialised && !detail::host_function_runs) [[likely]]
    return CUDA_SUCCESS;
  return detail::admit_slowly(name, before_init);
}

template <class Body>
CUresult enter_anytime(const char* name, Body&& body) {
  std::optional<detail::counted_call> measured;
  if (detail::counting.load(std::memory_order_relaxed)) [[unlikely]]
    measured.emplace(name);
  CUresult result;
  try {
    result = body();
  } catch (...) {
    result = detail::exception_result(name);
  }
  if (result != CUDA_SUCCESS) [[unlikely]] detail::say_failure(name, result);
  return result;
}

template <class Body>
CUresult enter(const char* name, CUresult before_init, Body&& body) {
  if (const CUresult r = admit(name, before_init); r != CUDA_SUCCESS) return r;
  return enter_anytime(name, std::forward<Body>(body));
}

// Says the name once (GPUWIRE_LOG=debug) and returns CUDA_ERROR_NOT_SUPPORTED.
CUresult refuse(const char* name);

// Opens the session if there is none. Success, or the code for a server that cannot be reached.
CUresult need_connection();

// ---- handles ----

template <class Handle>
std::uint64_t id_of(Handle* handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}
inline std::uint64_t id_of(unsigned long long handle) {
  return handle;
}
template <class Handle>
Handle handle_from(std::uint64_t id) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<Handle>(id);
  else
    return static_cast<Handle>(id);
}

// Makes stream 0 mean the per-thread default stream while it lives.
struct per_thread_default_stream_scope {
  per_thread_default_stream_scope() { ++self().per_thread_stream_depth; }
  ~per_thread_default_stream_scope() { --self().per_thread_stream_depth; }
  per_thread_default_stream_scope(const per_thread_default_stream_scope&) = delete;
  per_thread_default_stream_scope& operator=(const per_thread_default_stream_scope&) = delete;
};

inline std::uint64_t stream_id(CUstream stream) {
  const auto id = id_of(stream);
  return id == 0 && self().per_thread_stream_depth != 0 ? 2 : id;
}

// The server's ordinal of a device that the program named; unknown ones pass as -1, which the
// driver refuses.
std::int32_t device_ordinal(CUdevice device);

// ---- commands ----

template <class Call>
struct answer {
  CUresult result = CUDA_SUCCESS;
  typename Call::reply body{};

  answer() = default;
  answer(answer&& other) noexcept
      : result(other.result),
        body(std::move(other.body)),
        storage(std::exchange(other.storage, std::nullopt)),
        cached(std::move(other.cached)) {}
  answer& operator=(answer&&) = delete;
  ~answer() {
    if (storage) self().spare_replies.push_back(std::move(*storage));
  }
  std::optional<wire::reply> storage;                    // reused by the thread's next call
  std::shared_ptr<const std::vector<std::byte>> cached;  // of an answer from the cache
};

namespace detail {

// Asking for devices works whatever happened to the current context.
constexpr bool asks_a_device(std::string_view name) {
  return name.substr(0, 8) == "cuDevice";
}

// An error of an earlier posted command or of the context that this call must return instead of
// being sent.
CUresult earlier_error(thread_state& t);
wire::reply take_reply(thread_state& t);
// Meets the transport's error with the driver's answer; remembers sticky codes.
CUresult result_of(thread_state& t, wire::error transport, const wire::reply& r,
                   bool watch_context);
CUresult transport_result(wire::error transport);
bool posting_waits();
void reply_is_malformed(const char* name);

// Answers that were asked for once. A key is the context and the encoded request; `epoch` tells
// whether something was forgotten while the answer was on its way.
std::shared_ptr<const std::vector<std::byte>> find_cached(std::uint16_t call, std::string_view key);
std::uint64_t cache_epoch();
void keep_cached(std::uint16_t call, std::string_view key, std::uint64_t epoch,
                 std::vector<std::byte> body);

}  // namespace detail

// What follows from a success beyond its answer; most calls have nothing.
template <class Request>
void noticed(const Request&) {}
void noticed(const msg::cuFuncSetAttribute::request& q);
void noticed(const msg::cuKernelSetAttribute::request& q);

namespace detail {

// Sends and waits, whatever happened before.
template <class Call>
void exchange(thread_state& t, answer<Call>& a, const typename Call::request& q,
              const wire::transfer& transfer, bool watch_context) {
  a.storage = take_reply(t);
  wire::reply& r = *a.storage;
  const wire::command command{Call::call_id, t.lane, t.context_index()};
  const auto transport = state().client->call(command, q, r, transfer);
  a.result = result_of(t, transport, r, watch_context);
  if (transport != wire::error::ok) return;
  auto body = r.body();
  const bool decoded = wire::decode_from(body, a.body);
  if (!decoded) a.body = {};
  if (a.result != CUDA_SUCCESS) return;
  if (decoded) return noticed(q);
  reply_is_malformed(Call::name);
  a.result = CUDA_ERROR_UNKNOWN;
}

template <class Call>
CUresult append(thread_state& t, const typename Call::request& q) {
  if (posting_waits()) [[unlikely]] {
    answer<Call> a;
    exchange(t, a, q, {}, true);
    return a.result;
  }
  const wire::command command{Call::call_id, t.lane, t.context_index()};
  const auto transport = state().client->post(command, q);
  if (transport == wire::error::ok) [[likely]]
    return CUDA_SUCCESS;
  return transport_result(transport);
}

}  // namespace detail

// no: the call is legal in a context that an error has poisoned, and does not report errors of
// earlier commands.
enum class errors_first { yes, no };

template <class Call>
answer<Call> transact(const typename Call::request& q, const wire::transfer& transfer = {},
                      errors_first order = errors_first::yes) {
  answer<Call> a;
  thread_state& t = self();
  need_lane(t);
  const bool watch = order == errors_first::yes && !detail::asks_a_device(Call::name);
  if (watch) a.result = detail::earlier_error(t);
  if (a.result == CUDA_SUCCESS) detail::exchange(t, a, q, transfer, watch);
  return a;
}

template <class Call>
answer<Call> call(const typename Call::request& q) {
  return transact<Call>(q);
}

template <class Call>
CUresult post(const typename Call::request& q) {
  thread_state& t = self();
  need_lane(t);
  if (const CUresult r = detail::earlier_error(t); r != CUDA_SUCCESS) return r;
  return detail::append<Call>(t, q);
}

// A stream or context whose work was found done by a command is known to be idle until any thread appends anything at all:
// then nothing can have been given to it since. `idle_at` is that command's place in the ordered stream.
inline bool known_idle(const std::atomic<std::uint64_t>& idle_at) {
  const wire::client& client = *state().client;
  return idle_at.load(std::memory_order_relaxed) == client.appended() &&
         state().captures.load(std::memory_order_relaxed) == 0 &&
         client.state() == wire::error::ok;
}

// What a command that waited for a stream or context says of it.
template <class Call>
void note_idle(std::atomic<std::uint64_t>& idle_at, const answer<Call>& a) {
  if (a.result == CUDA_SUCCESS && a.storage)
    idle_at.store(a.storage->position, std::memory_order_relaxed);
}

// Counts one operation of a stream and waits for room. Fails only with a lost connection.
CUresult count_operation(stream_credit& credit, std::uint64_t copy_bytes);

// Operations of a stream that neither read nor write memory.
template <class Call>
inline constexpr bool is_device_work = true;
template <>
inline constexpr bool is_device_work<msg::event_record> = false;
template <>
inline constexpr bool is_device_work<msg::stream_wait_event> = false;

// The same for commands that are operations of a stream. An operation is counted if and only if its
// frame is sent: the daemon counts the frames.
template <class Call>
CUresult post_operation(stream_credit& credit, std::uint64_t copy_bytes,
                        const typename Call::request& q) {
  thread_state& t = self();
  need_lane(t);
  if (const CUresult r = detail::earlier_error(t); r != CUDA_SUCCESS) return r;
  if (is_device_work<Call>)
    if (const CUresult r = before_device_work(); r != CUDA_SUCCESS) return r;
  if (const CUresult r = count_operation(credit, copy_bytes); r != CUDA_SUCCESS) return r;
  return detail::append<Call>(t, q);
}

template <class Call>
answer<Call> call_operation(stream_credit& credit, std::uint64_t copy_bytes,
                            const typename Call::request& q, const wire::transfer& transfer = {}) {
  answer<Call> a;
  thread_state& t = self();
  need_lane(t);
  a.result = detail::earlier_error(t);
  if (is_device_work<Call> && a.result == CUDA_SUCCESS) a.result = before_device_work();
  if (a.result == CUDA_SUCCESS) a.result = count_operation(credit, copy_bytes);
  if (a.result == CUDA_SUCCESS) detail::exchange(t, a, q, transfer, true);
  return a;
}

// Answers that do not change are asked for once in each context. Only successes are kept.
template <class Call>
answer<Call> cached_call(const typename Call::request& q) {
  answer<Call> a;
  thread_state& t = self();
  if (!detail::asks_a_device(Call::name)) {
    a.result = detail::earlier_error(t);
    if (a.result != CUDA_SUCCESS) return a;
  }
  alignas(8) std::array<std::byte, 256> encoded;
  const std::uint64_t context = t.context_index();
  std::memcpy(encoded.data(), &context, sizeof context);
  wire::encoder encoder(encoded.data() + sizeof context, encoded.size() - sizeof context);
  wire::encode_into(q, encoder);
  if (!encoder.ok()) return transact<Call>(q);
  const std::string_view key(reinterpret_cast<const char*>(encoded.data()),
                             sizeof context + encoder.size());
  a.cached = detail::find_cached(Call::call_id, key);
  if (a.cached) {
    wire::decoder body(a.cached->data(), a.cached->size());
    if (wire::decode_from(body, a.body)) return a;
  }
  const auto epoch = detail::cache_epoch();
  auto fresh = transact<Call>(q);
  if (fresh.result == CUDA_SUCCESS) {
    std::vector<std::byte> bytes(wire::encoded_bytes(fresh.body));
    wire::encoder again(bytes.data(), bytes.size());
    wire::encode_into(fresh.body, again);
    detail::keep_cached(Call::call_id, key, epoch, std::move(bytes));
  }
  return fresh;
}

void forget_cached(std::uint16_t call_id);
void forget_all_cached();

// ---- checks shared by handwritten bodies ----

// Success if the thread has a live current context; else 201, or 709 for one that was destroyed.
CUresult need_context();

// What a stream handle means in this thread. `credit` is what operations on it count against.
struct stream_target {
  CUresult result = CUDA_SUCCESS;  // 400 for a handle that is none, 201 without a context
  std::uint64_t id = 0;
  stream_credit* credit = nullptr;
  stream_record* record = nullptr;  // null for the default streams
};
stream_target find_stream(CUstream stream);

}  // namespace gpuwire::shim
