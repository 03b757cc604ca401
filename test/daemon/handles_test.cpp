// SPDX-License-Identifier: Apache-2.0
#include "daemon/handles.hpp"

#include "test/catch.hpp"

using namespace gpuwire::daemon;
using gpuwire::wire::handle_index;
using gpuwire::wire::make_handle;

namespace {
constexpr std::uint8_t stream_kind = 3, event_kind = 4;
int objects[8];
}  // namespace

TEST_CASE("a minted handle leads to its object and to nothing else") {
  handle_table table(stream_kind);
  const auto id = table.mint(&objects[0], {5, 0});
  REQUIRE(id != 0);
  REQUIRE(table.find(id));
  CHECK(table.find(id)->native == &objects[0]);
  CHECK(table.find(id)->context == 5);
  const auto index = handle_index(id);
  CHECK_FALSE(table.find(make_handle(0, event_kind, 1, index)));
  CHECK_FALSE(table.find(make_handle(1, stream_kind, 1, index)));
  CHECK_FALSE(table.find(make_handle(0, stream_kind, 2, index)));
  CHECK_FALSE(table.find(make_handle(0, stream_kind, 1, index + 1)));
}

TEST_CASE("numbers that were never handles lead nowhere") {
  handle_table table(stream_kind);
  table.mint(&objects[0]);
  for (const std::uint64_t number :
       {0ull, 1ull, 2ull, ~0ull, 0x7fffdeadbeefull, 0x0003000100000000ull + (1u << 20),
        0x00030001ffffffffull, 0x0003000000000001ull}) {
    CHECK_FALSE(table.find(number));
    CHECK_FALSE(table.remove(number));
  }
}

TEST_CASE("the same object keeps its handle") {
  handle_table table(stream_kind);
  const auto id = table.mint(&objects[0]);
  CHECK(table.mint(&objects[0]) == id);
  CHECK(table.mint(&objects[1]) != id);
  CHECK(table.size() == 2);
}

TEST_CASE("a removed handle stays stale when its place is used again") {
  handle_table table(stream_kind);
  const auto first = table.mint(&objects[0]);
  REQUIRE(table.remove(first));
  CHECK_FALSE(table.find(first));
  CHECK(table.is_stale(first));
  CHECK_FALSE(table.remove(first));
  const auto second = table.mint(&objects[1]);
  CHECK(handle_index(second) == handle_index(first));
  CHECK(second != first);
  CHECK_FALSE(table.find(first));
  CHECK(table.is_stale(first));
  CHECK_FALSE(table.is_stale(second));
}

TEST_CASE("a client's own numbers are taken once, within bounds and of the right kind") {
  handle_table table(event_kind);
  const auto id = make_handle(0, event_kind, 7, 42);
  CHECK(table.place(id, &objects[0]));
  CHECK_FALSE(table.place(id, &objects[1]));
  CHECK_FALSE(table.place(make_handle(0, event_kind, 8, 42), &objects[1]));
  CHECK_FALSE(table.place(make_handle(0, stream_kind, 1, 43), &objects[1]));
  CHECK_FALSE(table.place(make_handle(0, event_kind, 1, limits::handle_index_end), &objects[1]));
  CHECK(table.place(make_handle(0, event_kind, 1, limits::handle_index_end - 1), &objects[1]));
  REQUIRE(table.find(id));
  CHECK(table.find(id)->native == &objects[0]);
  CHECK(table.remove(id)->native == &objects[0]);
  CHECK(table.place(make_handle(0, event_kind, 8, 42), &objects[2]));
  CHECK_FALSE(table.find(id));
}

TEST_CASE("the place of a failed creation can be given back but leads nowhere") {
  handle_table table(event_kind);
  const auto id = make_handle(0, event_kind, 1, 3);
  CHECK(table.place(id, nullptr));
  CHECK_FALSE(table.find(id));
  CHECK_FALSE(table.remove(id));
  CHECK(table.place(make_handle(0, event_kind, 2, 3), &objects[0]));
}

TEST_CASE("what belongs to a context or an image goes with it") {
  handle_table table(stream_kind);
  const auto image = make_handle(0, 6, 1, 1);
  const auto a = table.mint(&objects[0], {1, 0}), b = table.mint(&objects[1], {2, 0}),
             c = table.mint(&objects[2], {2, image});
  CHECK(table.parent_of(c) == image);
  CHECK(table.remove_context(1) == std::vector<void*>{&objects[0]});
  CHECK_FALSE(table.find(a));
  CHECK(table.remove_parent(image) == std::vector<void*>{&objects[2]});
  CHECK_FALSE(table.find(c));
  CHECK(table.find(b));
  CHECK(table.size() == 1);
}

TEST_CASE("a fixed index can be replaced and found by itself") {
  handle_table table(1, 64);
  const auto id = table.place_at(1, &objects[0]);
  CHECK(id == make_handle(0, 1, 1, 1));
  CHECK(table.find_index(1)->native == &objects[0]);
  CHECK_FALSE(table.find_index(2));
  CHECK_FALSE(table.find_index(0xffffffff));
  table.place_at(1, nullptr);
  CHECK_FALSE(table.find_index(1));
  CHECK(table.is_stale(id));
  CHECK(handle_index(table.mint(&objects[1])) == 64);
}

TEST_CASE("a family goes with its parent and says which handles it had") {
  handle_table table(stream_kind);
  const auto parent = make_handle(0, 20, 1, 1), other = make_handle(0, 20, 1, 2);
  const auto a = table.mint(&objects[0], {0, parent}), b = table.mint(&objects[1], {0, other}),
             c = table.mint(&objects[2], {0, parent});
  CHECK(table.id_of(&objects[2]) == c);
  CHECK(table.remove_family(parent) == std::vector{a, c});
  CHECK(table.remove_family(parent).empty());
  CHECK_FALSE(table.find(a));
  CHECK_FALSE(table.find(c));
  CHECK(table.id_of(&objects[2]) == 0);
  CHECK(table.find(b));
  // The driver may give the same address to another object, which then has a handle of its own.
  CHECK(table.mint(&objects[0], {0, other}) != a);
}

TEST_CASE("the handle of an object is found, also where the client chose it") {
  handle_table table(event_kind);
  const auto chosen = make_handle(0, event_kind, 5, 2'000);
  CHECK(table.place(chosen, &objects[0]));
  CHECK(table.id_of(&objects[0]) == chosen);
  CHECK(table.id_of(&objects[1]) == 0);
  CHECK(table.id_of(nullptr) == 0);
}
