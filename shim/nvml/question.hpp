// SPDX-License-Identifier: Apache-2.0
// One call on its way to the server: the arguments in, send(), the outputs out, in the same order
// as daemon/nvml/answer.hpp. Lives on the stack of the exported function. Outputs are written as
// the driver does: a plain one only after a success, what is in and out always.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string_view>
#include <vector>

#include "shim/nvml/connection.hpp"
#include "shim/nvml/fields.hpp"
#include "wire/generated/nvml/calls.hpp"
#include "wire/generated/nvml/types.hpp"

#define GPUWIRE_EXPORT __attribute__((visibility("default")))

namespace gpuwire::nvml {

std::int32_t refuse(const char* name);  // not carried: logged once by name

template <class Body>
std::int32_t enter(Body&& body) {
  if (!initialised()) return NVML_ERROR_UNINITIALIZED;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return NVML_ERROR_MEMORY;
  } catch (const std::exception&) {
    return NVML_ERROR_UNKNOWN;
  }
}

class question {
 public:
  explicit question(const call_number& call) : call_(call) {}

  // ---- arguments ----
  template <class T>
  void in(T value) {
    body_(value);
  }
  void handle(const void* h) { body_(reinterpret_cast<std::uint64_t>(h)); }
  void want(const void* p) { body_(p != nullptr); }
  void text(const char* t) {
    body_(t != nullptr);
    if (t != nullptr) body_(std::string_view(t, ::strnlen(t, text_bytes_max)));
  }
  template <class T>
  void in_pointer(const T* p) {
    body_(p != nullptr);
    if (p != nullptr) pack(*p);
  }
  template <class T>
  void in_array(const T* p, std::int64_t count) {
    body_(p != nullptr);
    const auto n = static_cast<std::uint32_t>(
        p != nullptr ? std::clamp<std::int64_t>(count, 0, array_max) : 0);
    body_(n);
    for (std::uint32_t i = 0; i < n; ++i) pack(p[i]);
  }
  template <class Family>
  void revisioned(const void* p) {
    std::uint32_t version = 0;
    if (p != nullptr) std::memcpy(&version, p, sizeof version);
    body_(version);
    if (p != nullptr &&
        !Family::with(version, const_cast<void*>(p), [&](const auto& s) { pack(s); })) {
      early_ = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
  }

  // True when the function was called and its outputs are to be taken.
  bool send();
  std::int32_t result() const { return result_; }

  // ---- outputs ----
  template <class T>
  void out(T* p) {
    if (p == nullptr) return;
    T value{};
    read(value);
    if (good() && result_ == NVML_SUCCESS) *p = value;
  }
  template <class T>
  void out_prefix(T* p, std::size_t bytes) {
    if (p == nullptr) return;
    T value{};
    read(value);
    if (good() && result_ == NVML_SUCCESS) std::memcpy(static_cast<void*>(p), &value, bytes);
  }
  template <class T>
  void update(T* p) {
    if (p == nullptr) return;
    read(*p);  // in place: the caller's struct may be an older, shorter one
    good();
  }
  template <class Family>
  void update_revisioned(void* p) {
    if (p == nullptr) return;
    std::uint32_t version = 0;
    std::memcpy(&version, p, sizeof version);
    Family::with(version, p, [&](auto& s) { update(&s); });
  }
  template <class T>
  void out_array(T* p, std::int64_t room) {
    if (p == nullptr) return;
    std::uint32_t count = 0;
    decoder_(count);
    if (count > room) decoder_.fail();
    for (std::uint32_t i = 0; i < count && good(); ++i) {
      T value{};
      read(value);
      if (good() && result_ == NVML_SUCCESS) p[i] = value;
    }
  }
  void out_text(char* p, std::uint32_t room) {
    if (p == nullptr) return;
    std::string_view sent;
    decoder_(sent);
    if (!good() || result_ != NVML_SUCCESS || room == 0) return;
    const auto bytes = std::min<std::size_t>(sent.size(), room - 1);
    std::memcpy(p, sent.data(), bytes);
    p[bytes] = 0;
  }

 private:
  static constexpr std::size_t text_bytes_max = 4096;
  static constexpr std::int64_t array_max = 1 << 20;

  template <class T>
  void pack(const T& value) {
    if constexpr (std::is_pointer_v<T>) {
      handle(value);
    } else {
      field_packer p{body_, rooms_};
      p(value);
    }
  }
  template <class T>
  void read(T& value) {
    field_reader r{decoder_, rooms_, next_room_};
    if constexpr (std::is_pointer_v<T>)
      r.handle(value, 0);
    else
      r(value);
    next_room_ = r.next_room;
  }
  // An answer that cannot be understood is no answer.
  bool good() {
    if (!decoder_.ok()) result_ = NVML_ERROR_UNKNOWN;
    return decoder_.ok();
  }

  const call_number& call_;
  wire::growing_encoder body_;
  std::vector<std::uint32_t> rooms_;
  std::size_t next_room_ = 0;
  std::int32_t early_ = NVML_SUCCESS, result_ = NVML_ERROR_UNKNOWN;
  wire::light_client::answer answer_;
  wire::decoder decoder_{nullptr, 0};
};

}  // namespace gpuwire::nvml
