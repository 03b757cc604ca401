// SPDX-License-Identifier: Apache-2.0
// The caller's structs into a question and an answer into the caller's structs, field by field.
// Numbers that the server sends are held against the room that the caller gave.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "wire/codec.hpp"
#include "wire/growing_encoder.hpp"

namespace gpuwire::nvml {

// A text of the server's library that the caller may keep for ever.
const char* kept_text(std::string_view text);

struct field_packer {
  wire::growing_encoder& out;
  std::vector<std::uint32_t>& rooms;  // of the arrays behind pointers, in order

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
  void handle(void* h, int) { out(reinterpret_cast<std::uint64_t>(h)); }
  void pid(std::uint32_t value) { out(value); }
  template <class T>
  void array(const T* values, std::uint32_t room) {
    out(values != nullptr);
    rooms.push_back(values != nullptr ? room : 0);
  }
  template <class T, std::size_t Count>
  void used(const T (&values)[Count], std::uint32_t count) {
    const auto n = std::min<std::uint32_t>(count, Count);
    rooms.push_back(n);
    for (std::uint32_t i = 0; i < n; ++i) (*this)(values[i]);
  }
  void text(const char*) {}
};

struct field_reader {
  wire::decoder& in;
  const std::vector<std::uint32_t>& rooms;
  std::size_t next_room = 0;

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
  void handle(void*& h, int) {
    std::uint64_t id = 0;
    in(id);
    h = reinterpret_cast<void*>(id);
  }
  void pid(std::uint32_t& value) { in(value); }
  template <class T>
  void array(T* values, std::uint32_t&) {
    const auto room = next_room < rooms.size() ? rooms[next_room++] : 0;
    std::uint32_t count = 0;
    in(count);
    if (count > room) return in.fail();
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) (*this)(values[i]);
  }
  template <class T, std::size_t Count>
  void used(T (&values)[Count], std::uint32_t&) {
    const auto n = next_room < rooms.size() ? rooms[next_room++] : 0;
    for (std::uint32_t i = 0; i < n; ++i) (*this)(values[i]);
  }
  void text(const char*& t) {
    std::string_view sent;
    in(sent);
    t = kept_text(sent);
  }
};

}  // namespace gpuwire::nvml
