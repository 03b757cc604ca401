// SPDX-License-Identifier: Apache-2.0
#include "daemon/tickets.hpp"

#include <thread>

#include "daemon/control_channel.hpp"
#include "test/catch.hpp"

using namespace gpuwire::daemon;

namespace {

ticket_packet question(ticket_packet::action what, ticket_kind kind, unsigned name) {
  ticket_packet p;
  p.what = what;
  p.kind = kind;
  p.name[5] = static_cast<std::byte>(name);
  p.payload[0] = static_cast<std::byte>(name + 1);
  return p;
}

}  // namespace

TEST_CASE("a ticket is good for its kind and as long as its session") {
  ticket_book book(2);
  int fd = -1;
  using action = ticket_packet::action;
  REQUIRE(book.answer(question(action::keep, ticket_kind::memory, 1), {}, 7, fd).good);
  // No second life for a name.
  REQUIRE_FALSE(book.answer(question(action::keep, ticket_kind::event, 1), {}, 8, fd).good);
  const auto found = book.answer(question(action::find, ticket_kind::memory, 1), {}, 8, fd);
  REQUIRE(found.good);
  REQUIRE(found.payload[0] == std::byte{2});
  REQUIRE(fd == -1);
  REQUIRE_FALSE(book.answer(question(action::find, ticket_kind::event, 1), {}, 8, fd).good);
  REQUIRE_FALSE(book.answer(question(action::find, ticket_kind::memory, 2), {}, 8, fd).good);
  REQUIRE(book.answer(question(action::keep, ticket_kind::memory, 2), {}, 7, fd).good);
  REQUIRE_FALSE(book.answer(question(action::keep, ticket_kind::memory, 3), {}, 7, fd).good);
  REQUIRE(book.answer(question(action::keep, ticket_kind::memory, 3), {}, 8, fd).good);
  book.forget_session(7);
  REQUIRE(book.size() == 1);
  REQUIRE_FALSE(book.answer(question(action::find, ticket_kind::memory, 1), {}, 8, fd).good);
}

TEST_CASE("what is no packet of tickets is refused") {
  auto bytes = question(ticket_packet::action::find, ticket_kind::pool, 4).encode();
  REQUIRE(ticket_packet::decode(bytes));
  REQUIRE_FALSE(ticket_packet::decode(std::span(bytes).first(bytes.size() - 1)));
  bytes[1] = std::byte{99};
  REQUIRE_FALSE(ticket_packet::decode(bytes));
  bytes[1] = std::byte{1};
  bytes[0] = std::byte{0};
  REQUIRE_FALSE(ticket_packet::decode(bytes));
}

TEST_CASE("a desk asks over its channel") {
  auto pair = make_control_pair();
  REQUIRE(pair);
  ticket_desk desk;
  desk.open(std::move(pair->first));
  std::thread main_process([&] {
    ticket_book book(10);
    for (int i = 0; i < 3;) {
      std::array<std::byte, ticket_packet::packet_bytes> packet{};
      descriptor fd;
      const auto state = receive_packet(pair->second.get(), packet, fd);
      if (state == control_state::would_block) continue;
      if (state == control_state::closed) return;
      int with_it = -1;
      const auto answer = book.answer(*ticket_packet::decode(packet), std::move(fd), 1, with_it);
      send_packet(pair->second.get(), answer.encode(), with_it);
      ++i;
    }
  });
  const std::array payload = {std::byte{42}};
  const auto name = desk.keep(ticket_kind::memory, payload);
  REQUIRE(name);
  const auto found = desk.find(ticket_kind::memory, *name);
  REQUIRE(found);
  REQUIRE(found->payload[0] == std::byte{42});
  REQUIRE_FALSE(desk.find(ticket_kind::event, *name));
  REQUIRE_FALSE(desk.find(ticket_kind::memory, std::span(*name).first(31)));
  main_process.join();
}
