// SPDX-License-Identifier: Apache-2.0
// Goal: what was encoded is decoded, and nothing else is. Method: round trips, every shorter
// length, single wrong bytes.
#include "wire/codec.hpp"

#include <cstring>
#include <string>

#include "test/catch.hpp"
#include "wire/endpoint.hpp"
#include "wire/handle.hpp"

using namespace gpuwire::wire;

namespace {

struct kernel_entry {
  std::string_view name;
  array_view<std::uint32_t> offsets;
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor& v) {
    v(self.name);
    v(self.offsets);
  }
};

enum class colour : std::uint16_t { red = 1, blue = 700 };

struct everything {
  bool flag{};
  std::uint8_t byte{};
  std::int32_t number{};
  colour paint{};
  double real{};
  std::string_view text;
  array_view<std::uint64_t> words;
  kernel_entry one;
  nested_array<kernel_entry> many;
  bytes_view payload;
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor& v) {
    v(self.flag);
    v(self.byte);
    v(self.number);
    v(self.paint);
    v(self.real);
    v(self.text);
    v(self.words);
    v.nested(self.one);
    v.nested_array(self.many);
    v(self.payload);
  }
};

const std::uint64_t words[] = {1, ~0ull, 77};
const std::uint32_t offsets[] = {0, 8, 24, 32};
const std::string blob(1001, 'x');

everything sample() {
  everything m;
  m.flag = true;
  m.byte = 200;
  m.number = -5;
  m.paint = colour::blue;
  m.real = 2.5;
  m.text = "kernel";
  m.words = {words, 3};
  m.one = {"one", {offsets, 4}};
  m.many = {{"a", {offsets, 1}}, {"", {}}, {"ccc", {offsets, 3}}};
  m.payload = {reinterpret_cast<const std::byte*>(blob.data()), blob.size()};
  return m;
}

std::vector<std::byte> encoded(const everything& m) {
  std::vector<std::byte> out(encoded_bytes(m));
  encoder e(out.data(), out.size());
  encode_into(m, e);
  REQUIRE(e.ok());
  REQUIRE(e.size() == out.size());
  return out;
}

}  // namespace

TEST_CASE("every kind of field survives a round trip, views aligned", "[codec]") {
  const auto body = encoded(sample());
  REQUIRE(body.size() % 8 == 0);
  everything m;
  decoder d(body.data(), body.size());
  REQUIRE(decode_from(d, m));
  CHECK(m.flag);
  CHECK(m.byte == 200);
  CHECK(m.number == -5);
  CHECK(m.paint == colour::blue);
  CHECK(m.real == 2.5);
  CHECK(m.text == "kernel");
  CHECK(m.words == sample().words);
  CHECK(m.one.name == "one");
  CHECK(m.one.offsets == sample().one.offsets);
  REQUIRE(m.many.size() == 3);
  CHECK(m.many[2].name == "ccc");
  CHECK(m.many[2].offsets[2] == 24);
  CHECK(m.payload == sample().payload);
  CHECK(reinterpret_cast<std::uintptr_t>(m.words.data) % 8 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(m.payload.data) % 8 == 0);
}

TEST_CASE("every shorter length fails", "[codec]") {
  const auto body = encoded(sample());
  // A copy of the exact length, so that a sanitizer sees one byte too many.
  for (std::size_t bytes = 0; bytes + 8 <= body.size(); ++bytes) {
    std::vector<std::byte> part(body.begin(), body.begin() + static_cast<long>(bytes));
    everything m;
    decoder d(part.data(), part.size());
    CHECK_FALSE(decode_from(d, m));
  }
}

TEST_CASE("failure is sticky and zeroes what is read after it", "[codec]") {
  const std::byte body[8] = {std::byte{2}, std::byte{9}};
  decoder d(body, sizeof body);
  bool flag = true;
  d(flag);
  CHECK_FALSE(flag);
  CHECK_FALSE(d.ok());
  std::uint32_t number = 5;
  d(number);
  CHECK(number == 0);
  std::string_view text = "old";
  d(text);
  CHECK(text.empty());
}

TEST_CASE("trailing bytes and dirty padding are refused", "[codec]") {
  auto body = encoded(sample());
  everything m;
  body.resize(body.size() + 8);
  decoder longer(body.data(), body.size());
  CHECK_FALSE(decode_from(longer, m));
  body.resize(body.size() - 8);
  body.back() = std::byte{1};  // the payload has 1001 bytes: the last ones are padding
  decoder dirty(body.data(), body.size());
  CHECK_FALSE(decode_from(dirty, m));
}

TEST_CASE("a huge announced count allocates nothing", "[codec]") {
  const std::uint32_t body[2] = {0xffffffff, 0};
  nested_array<kernel_entry> many;
  decoder d(reinterpret_cast<const std::byte*>(body), sizeof body);
  d.nested_array(many);
  CHECK_FALSE(d.ok());
  CHECK(many.capacity() == 0);
  const std::uint64_t size[1] = {~0ull};
  bytes_view payload;
  decoder d2(reinterpret_cast<const std::byte*>(size), sizeof size);
  d2(payload);
  CHECK_FALSE(d2.ok());
  CHECK(payload.size == 0);
}

TEST_CASE("an encoder without room writes nothing beyond it", "[codec]") {
  const auto whole = encoded_bytes(sample());
  for (std::size_t room = 0; room < whole; room += 7) {
    std::vector<std::byte> memory(room);
    encoder e(memory.data(), room);
    encode_into(sample(), e);
    CHECK_FALSE(e.ok());
  }
}

TEST_CASE("handles keep their parts", "[handle]") {
  constexpr auto h = make_handle(3, 7, 0xfffe, 0xdeadbeef);
  CHECK(handle_server(h) == 3);
  CHECK(handle_kind_of(h) == 7);
  CHECK(handle_generation(h) == 0xfffe);
  CHECK(handle_index(h) == 0xdeadbeef);
  CHECK_FALSE(is_special_handle(make_handle(0, 1, 0, 0)));
  CHECK(is_special_handle(2));
  CHECK(is_special_handle(~0ull));
}

TEST_CASE("endpoints are read as people write them", "[endpoint]") {
  struct row {
    const char* text;
    const char* host;  // null: refused
    int port;
  };
  const row rows[] = {
      {"gpu7", "gpu7", default_port},
      {"gpu7:99", "gpu7", 99},
      {"10.0.0.1:65535", "10.0.0.1", 65535},
      {"[::1]:80", "::1", 80},
      {"[fe80::1]", "fe80::1", default_port},
      {"::1", "::1", default_port},
      {"fe80::1%eth0", "fe80::1%eth0", default_port},
      {"", nullptr, 0},
      {":80", nullptr, 0},
      {"gpu7:", nullptr, 0},
      {"gpu7:0", nullptr, 0},
      {"gpu7:65536", nullptr, 0},
      {"gpu7:8x", nullptr, 0},
      {"gpu7:-1", nullptr, 0},
      {"[::1", nullptr, 0},
      {"[::1]80", nullptr, 0},
      {"[gpu7]:80", nullptr, 0},
      {"http://gpu7:80", nullptr, 0},
      {"tcp://gpu7", nullptr, 0},
      {"gpu 7", nullptr, 0},
      {"a:b:c", nullptr, 0},
  };
  for (const auto& r : rows) {
    INFO(r.text);
    const auto e = parse_endpoint(r.text);
    REQUIRE(e.has_value() == (r.host != nullptr));
    if (!e) continue;
    CHECK(e->host == r.host);
    CHECK(e->port == r.port);
    CHECK(parse_endpoint(to_string(*e))->host == e->host);
  }
}
