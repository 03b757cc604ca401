// SPDX-License-Identifier: Apache-2.0
// Links, resources, tensor maps and batches with numbers that a client made up: each gets a code, and the worker goes on.
#include <cstring>
#include <string>

#include "test/catch.hpp"
#include "test/daemon/server_process.hpp"

using namespace daemon_test;

namespace {

constexpr char empty_ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k() { ret; }\n";

msg::link_add::request input_for(std::uint64_t link, std::string_view text) {
  msg::link_add::request q;
  q.link = link;
  q.type = 1;  // PTX
  q.input_bytes = text.size();
  q.data = {reinterpret_cast<const std::byte*>(text.data()), text.size()};
  return q;
}

}  // namespace

TEST_CASE("a link is made, filled, completed twice and ended once") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  const auto made = c.call<msg::link_create>({});
  REQUIRE(made.result == 0);
  const auto link = made.body.link;
  CHECK(c.call<msg::link_add>(input_for(link, empty_ptx)).result == 0);
  const auto first = c.call<msg::link_complete>({link});
  REQUIRE(first.result == 0);
  CHECK(first.body.image.size > 0);
  CHECK(c.call<msg::link_complete>({link}).body.image.size == first.body.image.size);
  CHECK(c.call<msg::link_destroy>({link}).result == 0);
  CHECK(c.call<msg::link_destroy>({link}).result == 400);
  CHECK(c.call<msg::link_add>(input_for(link, empty_ptx)).result == 400);
  CHECK(c.call<msg::link_complete>({link}).result == 400);
}

TEST_CASE("made-up links, types and lists get codes") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  for (const std::uint64_t number : {0ull, 7ull, 0x28000100000007ull, ~0ull})
    CHECK(c.call<msg::link_complete>({number}).result == 400);
  const auto link = c.call<msg::link_create>({}).body.link;
  auto q = input_for(link, empty_ptx);
  q.type = 99;
  CHECK(c.call<msg::link_add>(q).result == 1);
  // Two names are announced, one is there.
  const std::int32_t options[] = {17, 18, 19};
  const std::uint64_t values[] = {2, 2, 2};
  const std::uint64_t addresses[] = {0x1000, 0x2000};
  q = input_for(link, empty_ptx);
  q.options = {options, 3};
  q.option_values = {values, 3};
  q.option_addresses = {addresses, 2};
  q.option_texts = {reinterpret_cast<const std::byte*>("one"), 4};
  CHECK(c.call<msg::link_add>(q).result == 1);
  CHECK(c.call<msg::link_add>(input_for(link, empty_ptx)).result == 0);
}

TEST_CASE("resources that nobody gave out are no resources") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  const std::uint64_t numbers[] = {1, 2, 1ull << 40};
  msg::resource_describe::request describe;
  describe.resources = {numbers, 3};
  CHECK(c.call<msg::resource_describe>(describe).result == 914);
  msg::resource_split::request split;
  split.resource = 77;
  split.groups = 1;
  split.list_wanted = true;
  CHECK(c.call<msg::resource_split>(split).result == 914);
  msg::green_create::request green;
  green.descriptor = 0x2a000100000001;
  CHECK(c.call<msg::green_create>(green).result == 400);
  CHECK(c.call<msg::green_destroy>({0x29000100000001}).result == 400);
  msg::resource_get::request get;
  get.type = 12345;
  CHECK(c.call<msg::resource_get>(get).result == 914);
}

TEST_CASE("a tensor map whose arrays do not fit its rank ends the session") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  msg::tensor_map::request q;
  q.rank = 3;
  q.map_given = true;
  q.given = 1;  // dimensions, of which there are none
  CHECK(c.call<msg::tensor_map>(q).transport != gpuwire::wire::error::ok);
  test_client other(server.endpoint());
  other.open();
  q.rank = 6;
  CHECK(other.call<msg::tensor_map>(q).result == 1);
  q.rank = 0;
  q.given = 0;
  q.data_type = 1000;
  CHECK(other.call<msg::tensor_map>(q).result == 1);
}

TEST_CASE("operations on memory with numbers that are none are refused") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  msg::stream_mem_ops::request q;
  CHECK(c.call<msg::stream_mem_ops>(q).result == 1);
  q.operations.resize(1);
  q.operations[0].operation = 4711;
  CHECK(c.call<msg::stream_mem_ops>(q).result == 1);
  q.operations.resize(257);
  CHECK(c.call<msg::stream_mem_ops>(q).result == 1);
  q.stream = 0x3000100000009;
  CHECK(c.call<msg::stream_mem_ops>(q).result == 400);
}
