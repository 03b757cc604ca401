// SPDX-License-Identifier: Apache-2.0
// One question on its way through the host's library: the arguments out of the question, the call,
// the outputs into the answer, in the same order as shim/nvml/question.hpp. Lives on the stack of
// its connection's thread. Never trusts a number of the client.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "daemon/nvml/fields.hpp"
#include "daemon/nvml/host.hpp"

namespace gpuwire::nvml {

template <class T>
struct slot {
  bool present = false;
  T value{};
  T* get() { return present ? &value : nullptr; }
};

template <class T>
struct array_slot {
  bool present = false;
  std::vector<T> values;  // never empty when present: the library is given a pointer
  std::uint32_t count = 0;
  T* get() { return present ? values.data() : nullptr; }
};

struct text_slot {
  bool present = false;
  std::string text;
  const char* get() const { return present ? text.c_str() : nullptr; }
};

struct text_room {
  bool present = false;
  std::uint32_t size = 0;
  std::vector<char> memory;
  char* get() { return present ? memory.data() : nullptr; }
  std::uint32_t room() const { return size; }
};

// A struct whose revision the client chose.
template <class Family>
struct revision_slot {
  std::uint32_t version = 0;  // 0: null
  alignas(8) unsigned char storage[Family::bytes_max] = {};
  void* get() { return version != 0 ? storage : nullptr; }
};

// What the questions of one connection share.
struct client_of_helper {
  host& shared;
  std::uint64_t process_key = 0;
  std::uint32_t pid = 0;  // the client's own number of its process
  owned_handles handles = {};
};

class answer final : public field_owner {
 public:
  answer(client_of_helper& client, wire::decoder& in, wire::growing_encoder& out)
      : client_(client), in_(in), out_(out) {}

  const library_table& library() const { return client_.shared.table; }
  std::int32_t result() const { return result_; }
  bool malformed() const { return malformed_; }

  // ---- arguments ----
  template <class T>
  T in() {
    T value{};
    in_(value);
    return value;
  }
  template <class T>
  T in_most(T most) {
    return std::min(in<T>(), most);
  }
  void* handle(int kind) {
    const auto id = in<std::uint64_t>();
    return id == 0 || !in_.ok() ? nullptr : native(id, kind);
  }
  text_slot cstring() {
    text_slot s;
    s.present = in<bool>();
    std::string_view sent;
    if (s.present) in_(sent);
    s.text = sent;
    return s;
  }
  template <class T>
  slot<T> wanted() {
    slot<T> s;
    s.present = in<bool>();
    return s;
  }
  template <class T>
  slot<T> given() {
    auto s = wanted<T>();
    if (s.present) unpack(s.value);
    return s;
  }
  template <class Family>
  revision_slot<Family> revisioned() {
    revision_slot<Family> s;
    s.version = in<std::uint32_t>();
    if (s.version != 0 &&
        !Family::with(s.version, s.storage, [&](auto& object) { unpack(object); }))
      in_.fail();  // an honest client does not send a revision that its build does not know
    return s;
  }
  text_room room_for_text(std::uint32_t length) {
    constexpr std::uint32_t room_max = 64u << 10;
    text_room s;
    s.present = in<bool>();
    s.size = std::min(length, room_max);
    s.memory.resize(s.size + 1);
    return s;
  }
  // As many as the client has room for; the count that the library sees is bounded.
  template <class T>
  array_slot<T> counted(std::uint32_t& count) {
    auto s = wanted_array<T>(0);
    if (s.present) {
      count = std::min(count, elements_max<T>());
      s.values.resize(std::max(count, 1u));
      s.count = count;
    }
    return s;
  }
  template <class T>
  array_slot<T> wanted_array(std::int64_t count) {
    array_slot<T> s;
    s.present = in<bool>();
    if (!s.present) return s;
    if (count < 0 || count > elements_max<T>()) {
      refuse(NVML_ERROR_INVALID_ARGUMENT);
      count = 0;
    }
    s.count = static_cast<std::uint32_t>(count);
    s.values.resize(std::max(s.count, 1u));
    return s;
  }
  template <class T>
  array_slot<T> given_array(std::int64_t count) {
    auto s = wanted_array<T>(count);
    const auto sent = in<std::uint32_t>();
    if (s.present && in_.ok() && refusal_ == NVML_SUCCESS && sent != s.count) in_.fail();
    for (std::uint32_t i = 0; i < s.count && in_.ok(); ++i) unpack(s.values[i]);
    return s;
  }

  // False: the function is not to be called, and the result says why.
  bool ready(bool changes_the_server);

  template <class Function, class... Arguments>
  void call(Function function, Arguments... arguments) {
    if (function == nullptr) {
      result_ = client_.shared.missing_function;
      out_(false);
      called_ = false;
      return;
    }
    result_ = function(arguments...);
    out_(true);
    called_ = true;
  }

  // ---- outputs ----
  template <class T>
  void give(const slot<T>& s, int kind = 0) {
    if (called_ && s.present) pack(s.value, kind);
  }
  template <class Family>
  void give(revision_slot<Family>& s) {
    if (called_ && s.version != 0)
      Family::with(s.version, s.storage, [&](const auto& object) { pack(object, 0); });
  }
  void give(const text_room& s) {
    if (called_ && s.present)
      out_(std::string_view(s.memory.data(), ::strnlen(s.memory.data(), s.size)));
  }
  template <class T>
  void give(const array_slot<T>& s, std::uint32_t count, int kind = 0) {
    if (!called_ || !s.present) return;
    const auto n = result_ == NVML_SUCCESS ? std::min(count, s.count) : 0;
    out_(n);
    for (std::uint32_t i = 0; i < n; ++i) pack(s.values[i], kind);
  }
  template <class T>
  void give(const array_slot<T>& s) {
    give(s, s.count);
  }
  // The client's handle was given back.
  void freed(void* native, int kind) {
    if (called_ && result_ == NVML_SUCCESS) client_.handles.remove(native, kind);
  }

  // field_owner
  void* native(std::uint64_t id, int kind) override;
  std::uint64_t number(void* native, int kind) override;
  std::uint32_t seen_by_client(std::uint32_t pid) override;

 private:
  void refuse(std::int32_t code) {
    if (refusal_ == NVML_SUCCESS) refusal_ = code;
  }
  template <class T>
  void unpack(T& value) {
    field_unpacker u{in_, *this};
    if constexpr (std::is_pointer_v<T>)
      u.handle(value, 0);
    else
      u(value);
  }
  template <class T>
  void pack(const T& value, int kind) {
    if constexpr (std::is_pointer_v<T>) {
      out_(number(value, kind));
    } else {
      field_packer p{out_, *this, next_room_};
      p(value);
    }
  }

  client_of_helper& client_;
  wire::decoder& in_;
  wire::growing_encoder& out_;
  std::int32_t refusal_ = NVML_SUCCESS, result_ = NVML_ERROR_UNKNOWN;
  bool malformed_ = false, called_ = false;
  std::size_t next_room_ = 0;
};

}  // namespace gpuwire::nvml
