// SPDX-License-Identifier: Apache-2.0
// Turns message structs into bytes and back. A message lists its fields once, in `visit`; a sizer, an encoder and a decoder
// walk that list, so the three cannot disagree.
//
// Layout: little-endian, fields packed in visit order. bool is one byte, 0 or 1. Text is a u32 length and the bytes. An
// array is a u32 count, zeros up to a multiple of 8 from the start of the body, the elements; bytes likewise with a u64
// size. A body is padded with zeros to a multiple of 8. Lengths are held against the bytes left before anything is
// allocated; a failure is sticky, zeroes what is read and never reads out of bounds.
//
// A decoder allocates only for arrays of nested structs. Its views point into the body it was given, which must be 8-aligned.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gpuwire::wire {

// Large binary payload; not owned.
struct bytes_view {
  const std::byte* data = nullptr;
  std::uint64_t size = 0;

  std::span<const std::byte> span() const { return {data, static_cast<std::size_t>(size)}; }
  friend bool operator==(const bytes_view& a, const bytes_view& b) {
    return a.size == b.size && (a.size == 0 || std::memcmp(a.data, b.data, a.size) == 0);
  }
};

// Fixed-width elements; not owned.
template <class Element>
struct array_view {
  static_assert(std::is_arithmetic_v<Element> && sizeof(Element) <= 8);
  const Element* data = nullptr;
  std::uint32_t size = 0;

  const Element* begin() const { return data; }
  const Element* end() const { return data + size; }
  const Element& operator[](std::size_t i) const { return data[i]; }
  bool empty() const { return size == 0; }
  std::span<const Element> span() const { return {data, size}; }
  friend bool operator==(const array_view& a, const array_view& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
};

// Wire structs one after the other.
template <class Element>
using nested_array = std::vector<Element>;

constexpr std::size_t padded_to_8(std::size_t bytes) { return (bytes + 7) & ~std::size_t{7}; }

template <class T>
inline constexpr bool is_wire_scalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// Adds up what encoding would take, padding at the end not included.
class sizer {
 public:
  std::size_t bytes() const { return bytes_; }

  template <class Scalar>
    requires is_wire_scalar<Scalar>
  void operator()(const Scalar&) {
    bytes_ += std::is_same_v<Scalar, bool> ? 1 : sizeof(Scalar);
  }
  void operator()(std::string_view text) { bytes_ += 4 + text.size(); }
  void operator()(const bytes_view& b) { bytes_ = padded_to_8(bytes_ + 8) + b.size; }
  template <class Element>
  void operator()(const array_view<Element>& a) {
    bytes_ = padded_to_8(bytes_ + 4) + a.size * sizeof(Element);
  }
  template <class Element>
  void operator()(const std::vector<Element>& elements) {
    nested_array(elements);
  }
  template <class Struct>
  void nested(const Struct& s) {
    Struct::visit(s, *this);
  }
  template <class Element>
  void nested(const std::vector<Element>& elements) {
    nested_array(elements);
  }
  template <class Element>
  void nested_array(const std::vector<Element>& elements) {
    bytes_ += 4;
    for (const auto& e : elements) {
      if constexpr (requires { Element::visit(e, *this); }) Element::visit(e, *this);
      else (*this)(e);
    }
  }

 private:
  std::size_t bytes_ = 0;
};

// Writes into memory of the caller. What does not fit is not written and makes ok() false for good.
class encoder {
 public:
  encoder(std::byte* begin, std::size_t capacity)
      : begin_(begin), at_(begin), end_(begin + capacity) {}

  bool ok() const { return ok_; }
  std::size_t size() const { return static_cast<std::size_t>(at_ - begin_); }

  template <class Scalar>
    requires is_wire_scalar<Scalar>
  void operator()(const Scalar& value) {
    if constexpr (std::is_same_v<Scalar, bool>) {
      const unsigned char byte = value ? 1 : 0;
      put(&byte, 1);
    } else {
      put(&value, sizeof value);
    }
  }
  void operator()(std::string_view text) {
    if (text.size() > UINT32_MAX) return fail();
    (*this)(static_cast<std::uint32_t>(text.size()));
    put(text.data(), text.size());
  }
  void operator()(const bytes_view& b) {
    (*this)(b.size);
    pad();
    put(b.data, b.size);
  }
  template <class Element>
  void operator()(const array_view<Element>& a) {
    (*this)(a.size);
    pad();
    put(a.data, a.size * sizeof(Element));
  }
  template <class Element>
  void operator()(const std::vector<Element>& elements) {
    nested_array(elements);
  }
  template <class Struct>
  void nested(const Struct& s) {
    Struct::visit(s, *this);
  }
  template <class Element>
  void nested(const std::vector<Element>& elements) {
    nested_array(elements);
  }
  template <class Element>
  void nested_array(const std::vector<Element>& elements) {
    if (elements.size() > UINT32_MAX) return fail();
    (*this)(static_cast<std::uint32_t>(elements.size()));
    for (const auto& e : elements) {
      if constexpr (requires { Element::visit(e, *this); }) Element::visit(e, *this);
      else (*this)(e);
    }
  }
  // Zeros up to the next multiple of 8 from the start.
  void pad() {
    static constexpr std::byte zeros[8] = {};
    put(zeros, padded_to_8(size()) - size());
  }

 private:
  void fail() {
    ok_ = false;
    end_ = at_;
  }
  void put(const void* data, std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(end_ - at_)) return fail();
    if (bytes != 0) std::memcpy(at_, data, bytes);
    at_ += bytes;
  }

  std::byte* begin_;
  std::byte* at_;
  std::byte* end_;
  bool ok_ = true;
};

class decoder {
 public:
  decoder(const std::byte* begin, std::size_t bytes)
      : begin_(begin), at_(begin), end_(begin + bytes) {}

  bool ok() const { return ok_; }
  std::size_t bytes_left() const { return static_cast<std::size_t>(end_ - at_); }
  void fail() {
    ok_ = false;
    at_ = end_;
  }
  // Everything was read; only the body's own zero padding may be left.
  bool finished() const {
    return ok_ && bytes_left() < 8 &&
           std::all_of(at_, end_, [](std::byte b) { return b == std::byte{0}; });
  }

  template <class Scalar>
    requires is_wire_scalar<Scalar>
  void operator()(Scalar& value) {
    if constexpr (std::is_same_v<Scalar, bool>) {
      unsigned char byte = 0;
      take(&byte, 1);
      if (byte > 1) fail();
      value = byte == 1;
    } else {
      take(&value, sizeof value);
    }
  }
  void operator()(std::string_view& text) {
    std::uint32_t bytes = 0;
    (*this)(bytes);
    const auto* data = view(bytes);
    text = data ? std::string_view(reinterpret_cast<const char*>(data), bytes) : std::string_view();
  }
  void operator()(bytes_view& b) {
    std::uint64_t bytes = 0;
    (*this)(bytes);
    skip_padding();
    const auto* data = view(bytes);
    b = data ? bytes_view{data, bytes} : bytes_view{};
  }
  template <class Element>
  void operator()(array_view<Element>& a) {
    std::uint32_t count = 0;
    (*this)(count);
    skip_padding();
    const auto* data = view(std::uint64_t{count} * sizeof(Element));
    a = data ? array_view<Element>{reinterpret_cast<const Element*>(data), count}
             : array_view<Element>{};
  }
  template <class Element>
  void operator()(std::vector<Element>& elements) {
    nested_array(elements);
  }
  template <class Struct>
  void nested(Struct& s) {
    Struct::visit(s, *this);
  }
  template <class Element>
  void nested(std::vector<Element>& elements) {
    nested_array(elements);
  }
  // The memory follows the elements that are really there, not the count that was announced.
  template <class Element>
  void nested_array(std::vector<Element>& elements) {
    elements.clear();
    std::uint32_t count = 0;
    (*this)(count);
    if (count > bytes_left()) return fail();  // an element takes at least one byte
    for (std::uint32_t i = 0; i < count && ok_; ++i) {
      auto& e = elements.emplace_back();
      if constexpr (requires { Element::visit(e, *this); }) Element::visit(e, *this);
      else (*this)(e);
    }
    if (!ok_) elements.clear();
  }

 private:
  void take(void* value, std::size_t bytes) {
    const auto* data = view(bytes);
    if (data) std::memcpy(value, data, bytes);
    else std::memset(value, 0, bytes);
  }
  // The next bytes, or null after a failure.
  const std::byte* view(std::uint64_t bytes) {
    if (!ok_ || bytes > bytes_left()) {
      fail();
      return nullptr;
    }
    const auto* data = at_;
    at_ += bytes;
    return data;
  }
  void skip_padding() {
    const auto offset = static_cast<std::size_t>(at_ - begin_);
    const auto bytes = padded_to_8(offset) - offset;
    const auto* data = view(bytes);
    if (data && !std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; }))
      fail();
  }

  const std::byte* begin_;
  const std::byte* at_;
  const std::byte* end_;
  bool ok_ = true;
};

// The body's size, padded to 8.
template <class Message>
std::size_t encoded_bytes(const Message& m) {
  sizer s;
  Message::visit(m, s);
  return padded_to_8(s.bytes());
}

template <class Message>
void encode_into(const Message& m, encoder& e) {
  Message::visit(m, e);
  e.pad();
}

// False unless the body holds this message and nothing else.
template <class Message>
[[nodiscard]] bool decode_from(decoder& d, Message& m) {
  Message::visit(m, d);
  return d.finished();
}

}  // namespace gpuwire::wire
