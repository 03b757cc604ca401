// SPDX-License-Identifier: Apache-2.0
// A client's structs out of a question, and the library's structs into an answer, field by field.
// Handles are looked up, arrays behind pointers get memory of ours, counts are bounded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "wire/codec.hpp"
#include "wire/growing_encoder.hpp"

namespace gpuwire::nvml {

inline constexpr std::uint32_t array_elements_max = 16384;
inline constexpr std::size_t array_bytes_max = 4u << 20;

template <class T>
constexpr std::uint32_t elements_max() {
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(array_elements_max, array_bytes_max / sizeof(T)));
}

// What the fields of one question need beyond their bytes.
class field_owner {
 public:
  virtual void* native(std::uint64_t id, int kind) = 0;  // notes a failure
  virtual std::uint64_t number(void* native, int kind) = 0;
  virtual std::uint32_t seen_by_client(std::uint32_t pid) = 0;

  // Zeroed memory that lives as long as the question.
  void* memory(std::size_t bytes) {
    blocks_.push_back(std::make_unique<std::max_align_t[]>(bytes / sizeof(std::max_align_t) + 1));
    return blocks_.back().get();
  }
  std::vector<std::uint32_t> rooms;  // of the arrays behind pointers, in order

 protected:
  ~field_owner() = default;

 private:
  std::vector<std::unique_ptr<std::max_align_t[]>> blocks_;
};

struct field_unpacker {
  wire::decoder& in;
  field_owner& owner;

  template <class T>
  void operator()(T& value) {
    if constexpr (wire::is_wire_scalar<T>)
      in(value);
    else
      T::fields(value, *this);
  }
  template <class T, std::size_t Count>
  void operator()(T (&values)[Count]) {
    for (auto& value : values) (*this)(value);
  }
  void handle(void*& h, int kind) {
    std::uint64_t id = 0;
    in(id);
    h = id == 0 || !in.ok() ? nullptr : owner.native(id, kind);
  }
  void pid(std::uint32_t& value) { in(value); }
  template <class T>
  void array(T*& values, std::uint32_t& room) {
    bool wanted = false;
    in(wanted);
    if (wanted) room = std::min(room, elements_max<T>());
    values = wanted ? static_cast<T*>(owner.memory(room * sizeof(T))) : nullptr;
    owner.rooms.push_back(wanted ? room : 0);
  }
  template <class T, std::size_t Count>
  void used(T (&values)[Count], std::uint32_t& count) {
    count = std::min<std::uint32_t>(count, Count);
    owner.rooms.push_back(count);
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) (*this)(values[i]);
  }
  void text(const char*& t) { t = nullptr; }
};

struct field_packer {
  wire::growing_encoder& out;
  field_owner& owner;
  std::size_t& next_room;

  template <class T>
  void operator()(const T& value) {
    if constexpr (wire::is_wire_scalar<T>)
      out(value);
    else
      T::fields(value, *this);
  }
  template <class T, std::size_t Count>
  void operator()(const T (&values)[Count]) {
    if constexpr (wire::is_wire_scalar<T>)
      out.put(values, sizeof values);
    else
      for (const auto& value : values) (*this)(value);
  }
  void handle(void* h, int kind) { out(owner.number(h, kind)); }
  void pid(std::uint32_t value) { out(owner.seen_by_client(value)); }
  template <class T>
  void array(const T* values, std::uint32_t count) {
    const auto room = next_room < owner.rooms.size() ? owner.rooms[next_room++] : 0;
    const auto n = values != nullptr ? std::min(count, room) : 0;
    out(n);
    for (std::uint32_t i = 0; i < n; ++i) (*this)(values[i]);
  }
  template <class T, std::size_t Count>
  void used(const T (&values)[Count], std::uint32_t) {
    const auto n = next_room < owner.rooms.size() ? owner.rooms[next_room++] : 0;
    for (std::uint32_t i = 0; i < n; ++i) (*this)(values[i]);
  }
  void text(const char* t) {
    constexpr std::size_t text_bytes_max = 256;
    out(t != nullptr ? std::string_view(t, ::strnlen(t, text_bytes_max)) : std::string_view());
  }
};

}  // namespace gpuwire::nvml
