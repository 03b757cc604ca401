// SPDX-License-Identifier: Apache-2.0
// MD2 against the test suite of RFC 1319, HMAC against its definition.
#include <string>
#include <vector>

#include "shim/md2.hpp"
#include "test/catch.hpp"

namespace {

using namespace gpuwire::shim;

std::vector<std::uint8_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string hex(const md2_digest& digest) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const auto b : digest) {
    text.push_back(digits[b >> 4]);
    text.push_back(digits[b & 15]);
  }
  return text;
}

}  // namespace

TEST_CASE("MD2 gives the digests of RFC 1319") {
  CHECK(hex(md2(bytes(""))) == "8350e5a3e24c153df2275c9f80692773");
  CHECK(hex(md2(bytes("a"))) == "32ec01ec4a6dac72c0ab96fb34c0b5d1");
  CHECK(hex(md2(bytes("abc"))) == "da853b0d3f88d99b30283a69e6ded6bb");
  CHECK(hex(md2(bytes("message digest"))) == "ab4f496bfb2a530b219ff33031fe06b0");
  CHECK(hex(md2(bytes("abcdefghijklmnopqrstuvwxyz"))) == "4e8ddff3650292ab5a4108c3aa47940b");
  CHECK(hex(md2(bytes("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"))) ==
        "da33def2a42df13975352846c30338cd");
  CHECK(hex(md2(bytes(
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890"))) ==
        "d5976f79d83d3a0dc9806c3c66f3efd8");
}

TEST_CASE("HMAC is the digest of the outer key and the inner digest") {
  const std::vector<std::uint8_t> key = bytes("0123456789abcdef");
  std::vector<std::uint8_t> inner, outer;
  for (const auto k : key) {
    inner.push_back(static_cast<std::uint8_t>(k ^ 0x36));
    outer.push_back(static_cast<std::uint8_t>(k ^ 0x5c));
  }
  for (const char c : std::string("what is signed")) inner.push_back(static_cast<std::uint8_t>(c));
  for (const auto b : md2(inner)) outer.push_back(b);
  CHECK(hmac_md2(key, bytes("what is signed")) == md2(outer));
  CHECK(hmac_md2(key, bytes("what is signed")) !=
        hmac_md2(bytes("0123456789abcdeg"), bytes("what is signed")));
}
