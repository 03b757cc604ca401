// SPDX-License-Identifier: Apache-2.0
// Fills a message with values that differ from one another and from the defaults, sends it through
// the codec, and demands that it comes back the same and that no shorter body is taken for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "test/catch.hpp"
#include "wire/codec.hpp"

namespace gpuwire::test {

// Views that it hands out point into memory of its own.
class filler {
 public:
  template <class Scalar>
  requires wire::is_wire_scalar<Scalar>
  void operator()(Scalar& value) {
    if constexpr (std::is_same_v<Scalar, bool>)
      value = true;
    else
      value = static_cast<Scalar>(next());
  }
  void operator()(std::string_view& text) {
    text = *texts_.emplace_back(std::make_unique<std::string>("text " + std::to_string(next())));
  }
  void operator()(wire::bytes_view& b) {
    auto& text =
        *texts_.emplace_back(std::make_unique<std::string>("payload " + std::to_string(next())));
    b = {reinterpret_cast<const std::byte*>(text.data()), text.size()};
  }
  template <class Element>
  void operator()(wire::array_view<Element>& a) {
    auto elements = std::make_shared<std::array<Element, 3>>();
    for (auto& e : *elements) e = static_cast<Element>(next());
    a = {elements->data(), 3};
    arrays_.push_back(elements);
  }
  template <class Struct>
  void nested(Struct& s) {
    Struct::visit(s, *this);
  }
  template <class Struct>
  void nested(std::vector<Struct>& list) {
    list.resize(2);
    for (auto& s : list) Struct::visit(s, *this);
  }

 private:
  std::uint64_t next() { return value_ += 0x0102030405060709u; }

  std::uint64_t value_ = 0;
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<std::shared_ptr<void>> arrays_;
};

// All values of a message in one text, for comparing.
class reader {
 public:
  std::string text;

  template <class Scalar>
  requires wire::is_wire_scalar<Scalar>
  void operator()(const Scalar& value) { text += std::to_string(value) + ";"; }
  void operator()(std::string_view t) { text.append(t) += ";"; }
  void operator()(const wire::bytes_view& b) {
    text.append(reinterpret_cast<const char*>(b.data), b.size) += ";";
  }
  template <class Element>
  void operator()(const wire::array_view<Element>& a) {
    for (const auto& e : a) (*this)(e);
    text += "|";
  }
  template <class Struct>
  void nested(const Struct& s) {
    Struct::visit(s, *this);
  }
  template <class Struct>
  void nested(const std::vector<Struct>& list) {
    for (const auto& s : list) Struct::visit(s, *this);
    text += "|";
  }
};

template <class Message>
std::string text_of(const Message& m) {
  reader r;
  Message::visit(m, r);
  return r.text;
}

// A body of exactly this length on the heap, so that a sanitizer sees every byte read beyond it.
template <class Message>
bool decodes(const std::byte* body, std::size_t bytes, std::string& values) {
  const std::vector<std::byte> copy(body, body + bytes);
  wire::decoder d(copy.data(), copy.size());
  Message m;
  const bool good = wire::decode_from(d, m);
  if (good) values = text_of(m);
  return good;
}

template <class Message>
void probe() {
  Message sent;
  filler f;
  Message::visit(sent, f);
  wire::sizer unpadded;
  Message::visit(sent, unpadded);
  std::vector<std::byte> body(wire::encoded_bytes(sent));
  REQUIRE(body.size() == wire::padded_to_8(unpadded.bytes()));
  wire::encoder e(body.data(), body.size());
  wire::encode_into(sent, e);
  REQUIRE(e.ok());
  REQUIRE(e.size() == body.size());

  std::string values;
  REQUIRE(decodes<Message>(body.data(), body.size(), values));
  CHECK(values == text_of(sent));
  // Without a byte of a field; what is cut off after the last field is only padding.
  for (std::size_t bytes = 0; bytes < unpadded.bytes(); ++bytes) {
    INFO("cut to " << bytes << " of " << unpadded.bytes() << " bytes");
    REQUIRE_FALSE(decodes<Message>(body.data(), bytes, values));
  }
  body.resize(body.size() + 8);
  REQUIRE_FALSE(decodes<Message>(body.data(), body.size(), values));
}

}  // namespace gpuwire::test
