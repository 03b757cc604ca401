// SPDX-License-Identifier: Apache-2.0
// A setting is only left out when it certainly changes nothing.
#include "shim/attribute_memory.hpp"
#include "test/catch.hpp"

using gpuwire::shim::attribute_memory;

TEST_CASE("an attribute is remembered by its number, device and value") {
  attribute_memory m;
  REQUIRE_FALSE(m.is_already(8, 0, 0));
  m.remember(8, 0, 65536);
  REQUIRE(m.is_already(8, 0, 65536));
  REQUIRE_FALSE(m.is_already(8, 0, 65535));
  REQUIRE_FALSE(m.is_already(8, 1, 65536));
  REQUIRE_FALSE(m.is_already(9, 0, 65536));
  m.remember(8, 0, -1);
  REQUIRE(m.is_already(8, 0, -1));
  REQUIRE_FALSE(m.is_already(8, 0, 65536));
}

TEST_CASE("numbers and devices beyond the table are never remembered") {
  attribute_memory m;
  m.remember(16, 0, 1);
  m.remember(8, -1, 1);
  m.remember(8, 256, 1);
  REQUIRE_FALSE(m.is_already(16, 0, 1));
  REQUIRE_FALSE(m.is_already(8, -1, 1));
  REQUIRE_FALSE(m.is_already(8, 256, 1));
}

TEST_CASE("forgetting one memory leaves the others, forgetting everywhere leaves none") {
  attribute_memory a, b;
  a.remember(8, 0, 7);
  b.remember(8, 0, 7);
  a.forget();
  REQUIRE_FALSE(a.is_already(8, 0, 7));
  REQUIRE(b.is_already(8, 0, 7));
  attribute_memory::forget_everywhere();
  REQUIRE_FALSE(b.is_already(8, 0, 7));
  b.remember(8, 0, 7);
  REQUIRE(b.is_already(8, 0, 7));
}
