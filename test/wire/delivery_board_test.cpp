// SPDX-License-Identifier: Apache-2.0
// Data for which no caller waits: who waits for what, and what is refused.
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "test/catch.hpp"
#include "wire/delivery_board.hpp"

using namespace gpuwire::wire;
using namespace std::chrono_literals;

namespace {

struct fixture {
  session_state state;
  delivery_board board{state};
  std::array<std::byte, 64> memory{};

  std::span<std::byte> part(std::size_t begin, std::size_t bytes) {
    return std::span(memory).subspan(begin, bytes);
  }
  std::span<const std::byte> bytes(std::size_t begin, std::size_t count) {
    return part(begin, count);
  }
};

}  // namespace

TEST_CASE("small data goes into the memory that its command named", "[delivery]") {
  fixture f;
  f.board.add(7, f.part(8, 4));
  const std::array<std::byte, 4> data{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  CHECK(f.board.expects_into(f.bytes(0, 9)));
  CHECK_FALSE(f.board.expects_into(f.bytes(0, 8)));
  CHECK_FALSE(f.board.expects_into(f.bytes(12, 4)));
  CHECK_FALSE(f.board.deliver(6, data));
  CHECK_FALSE(f.board.deliver(7, std::span(data).first(3)));
  CHECK(f.board.deliver(7, data));
  CHECK(std::memcmp(f.memory.data() + 8, data.data(), 4) == 0);
  CHECK_FALSE(f.board.deliver(7, data));
  CHECK_FALSE(f.board.expects_into(f.bytes(0, 64)));
}

TEST_CASE("chunks must lie inside, and the last one is noticed", "[delivery]") {
  fixture f;
  f.board.add(7, f.part(0, 32));
  CHECK(f.board.chunk_place(8, 0, 4).empty());
  CHECK(f.board.chunk_place(7, 33, 1).empty());
  CHECK(f.board.chunk_place(7, 16, 17).empty());
  CHECK(f.board.chunk_place(7, ~std::uint64_t{0}, 2).empty());
  CHECK(f.board.chunk_place(7, 16, 16).data() == f.memory.data() + 16);
  CHECK_FALSE(f.board.chunk_done(7, 16));
  CHECK(f.board.chunk_done(7, 16));
  CHECK(f.board.announce(7));  // the data was faster than the word
  CHECK(f.board.wait_announced());
}

TEST_CASE("a wait ends with what was announced before it, not with what came later", "[delivery]") {
  fixture f;
  f.board.add(1, f.part(0, 8));
  f.board.add(2, f.part(8, 8));
  CHECK(f.board.wait_announced());  // nothing was announced
  CHECK(f.board.announce(1));
  CHECK_FALSE(f.board.announce(1));
  std::atomic<bool> over{false};
  std::thread waiting([&] {
    if (f.board.wait_announced()) over = true;
  });
  std::this_thread::sleep_for(300ms);
  CHECK_FALSE(over);
  CHECK(f.board.announce(2));
  f.board.chunk_done(1, 8);
  for (int i = 0; i < 2000 && !over; ++i) std::this_thread::sleep_for(5ms);
  CHECK(over);
  f.board.withdraw(2);
  waiting.join();
  CHECK(f.board.wait_announced());
}

TEST_CASE("the end of the session ends the waits", "[delivery]") {
  fixture f;
  f.board.add(1, f.part(0, 8));
  CHECK(f.board.announce(1));
  std::atomic<int> result{-1};
  std::thread waiting([&] { result = f.board.wait_announced() ? 1 : 0; });
  std::this_thread::sleep_for(5ms);
  REQUIRE(f.state.end(error::connection_lost, "over"));
  f.board.release_all();
  waiting.join();
  CHECK(result == 0);
}
