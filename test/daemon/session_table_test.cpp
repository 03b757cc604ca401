// SPDX-License-Identifier: Apache-2.0
#include "daemon/session_table.hpp"

#include "daemon/control_channel.hpp"
#include "daemon/limits.hpp"
#include "test/catch.hpp"

using namespace gpuwire::daemon;

namespace {
session_entry entry_for(pid_t worker) {
  session_entry e;
  e.worker = worker;
  return e;
}
}  // namespace

TEST_CASE("a session is found by its id while its worker lives") {
  session_table table(10);
  const auto id = make_session_id(), other = make_session_id();
  CHECK(id != other);
  table.add(id, entry_for(100));
  REQUIRE(table.find(id) != nullptr);
  CHECK(table.find(id)->worker == 100);
  CHECK(table.find(other) == nullptr);
  CHECK(table.find({}) == nullptr);
  CHECK_FALSE(table.remove_worker(101));
  CHECK(table.remove_worker(100)->worker == 100);
  CHECK(table.find(id) == nullptr);
  CHECK_FALSE(table.remove_worker(100));
}

TEST_CASE("the table is full at its limit and not after an end") {
  session_table table(2);
  table.add(make_session_id(), entry_for(1));
  CHECK_FALSE(table.full());
  table.add(make_session_id(), entry_for(2));
  CHECK(table.full());
  table.remove_worker(1);
  CHECK_FALSE(table.full());
}

TEST_CASE("a session may have a bounded number of connections") {
  session_table table(2);
  auto& entry = table.add(make_session_id(), entry_for(1));
  for (std::size_t i = 1; i < limits::connections_per_session_max; ++i)
    CHECK(table.admit_connection(entry));
  CHECK_FALSE(table.admit_connection(entry));
}

TEST_CASE("a control message carries a descriptor, close-on-exec") {
  auto pair = make_control_pair();
  REQUIRE(pair);
  received_control received;
  CHECK(receive_control(pair->second.get(), received) == control_state::would_block);
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  descriptor reading(pipe_ends[0]), writing(pipe_ends[1]);
  CHECK(send_control(pair->first.get(),
                     {control_kind::attach, gpuwire::wire::connection_role::bulk}, writing.get()));
  CHECK(send_control(pair->first.get(), {control_kind::end, {}}));
  REQUIRE(receive_control(pair->second.get(), received) == control_state::message);
  CHECK(received.message.kind == control_kind::attach);
  CHECK(received.message.role == gpuwire::wire::connection_role::bulk);
  REQUIRE(received.connection);
  CHECK(::write(received.connection.get(), "x", 1) == 1);
  char byte = 0;
  CHECK(::read(reading.get(), &byte, 1) == 1);
  REQUIRE(receive_control(pair->second.get(), received) == control_state::message);
  CHECK(received.message.kind == control_kind::end);
  pair->first.reset();
  CHECK(receive_control(pair->second.get(), received) == control_state::closed);
}

TEST_CASE("an attach without a descriptor is no message") {
  auto pair = make_control_pair();
  REQUIRE(pair);
  CHECK(send_control(pair->first.get(),
                     {control_kind::attach, gpuwire::wire::connection_role::side}));
  received_control received;
  CHECK(receive_control(pair->second.get(), received) == control_state::closed);
}
