// SPDX-License-Identifier: Apache-2.0
// What generated entries need of the client, without a client: a call goes through the codec
// straight into the generated dispatch, on the toy driver of generated_code_test.cpp.
#pragma once

#include <toy.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/generated/dispatch.hpp"
#include "wire/generated/messages.hpp"

#define GPUWIRE_EXPORT __attribute__((visibility("default")))

namespace gpuwire::shim {

struct record {  // what the entries did, for the test
  static inline std::vector<std::uint16_t> called, posted, cached, forgotten;
  static inline const char* refused = nullptr;
  static inline int per_thread_depth = 0;
  static inline bool initialised = true, malformed = false;
};

template <class Body>
toyResult enter_anytime(const char*, Body&& body) {
  return body();
}
template <class Body>
toyResult enter(const char*, toyResult before_init, Body&& body) {
  return record::initialised ? body() : before_init;
}
inline toyResult refuse(const char* name) {
  record::refused = name;
  return TOY_UNSUPPORTED;
}

template <class Handle>
std::uint64_t id_of(Handle* handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}
template <class Handle>
Handle handle_from(std::uint64_t id) {
  return reinterpret_cast<Handle>(id);
}
inline std::uint64_t queue_id(toyQueue queue) {
  return queue || record::per_thread_depth == 0 ? id_of(queue) : 2;
}
inline int server_device(toyDevice device) {
  return device + 100;
}

struct per_thread_default_stream_scope {
  per_thread_default_stream_scope() { ++record::per_thread_depth; }
  ~per_thread_default_stream_scope() { --record::per_thread_depth; }
};

template <class Call>
struct answer {
  toyResult result{};
  typename Call::reply body{};
  std::vector<std::uint64_t> storage;
};

template <class Call>
answer<Call> exchange(const typename Call::request& q) {
  std::vector<std::uint64_t> body(wire::encoded_bytes(q) / 8);
  wire::encoder e(reinterpret_cast<std::byte*>(body.data()), body.size() * 8);
  wire::encode_into(q, e);
  wire::decoder in(reinterpret_cast<const std::byte*>(body.data()), body.size() * 8);
  daemon::call_context context;
  answer<Call> a;
  record::malformed =
      daemon::find_handler(Call::call_id)(context, in) == daemon::outcome::malformed;
  if (record::malformed) return a;
  a.result = context.result;
  a.storage = std::move(context.reply);
  wire::decoder out(reinterpret_cast<const std::byte*>(a.storage.data()), a.storage.size() * 8);
  if (!wire::decode_from(out, a.body)) a.result = TOY_INVALID;
  return a;
}

template <class Call>
answer<Call> call(const typename Call::request& q) {
  record::called.push_back(Call::call_id);
  return exchange<Call>(q);
}
template <class Call>
answer<Call> cached_call(const typename Call::request& q) {
  record::cached.push_back(Call::call_id);
  return exchange<Call>(q);
}
template <class Call>
toyResult post(const typename Call::request& q) {
  record::posted.push_back(Call::call_id);
  return exchange<Call>(q).result;
}
inline void forget_cached(std::uint16_t call) {
  record::forgotten.push_back(call);
}

}  // namespace gpuwire::shim
