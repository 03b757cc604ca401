// SPDX-License-Identifier: Apache-2.0
#include "daemon/credits.hpp"

#include "test/catch.hpp"

using namespace gpuwire::daemon;

namespace {
constexpr credit_key stream_a{0x0003000100000001, 0, 0}, stream_b{0x0003000100000002, 0, 0},
    legacy{0, 1, 0}, per_thread{2, 1, 7};
}

TEST_CASE("a stream is due for a marker every 64 operations") {
  credit_ledger ledger;
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 1; i < limits::credit_operations; ++i)
      CHECK_FALSE(ledger.count(stream_a, 0));
    CHECK(ledger.count(stream_a, 0));
    const auto totals = ledger.mark(stream_a);
    CHECK(totals.operations == limits::credit_operations * static_cast<std::uint64_t>(round + 1));
    CHECK(totals.bytes == 0);
  }
}

TEST_CASE("streams are counted apart, also when their operations alternate") {
  credit_ledger ledger;
  for (std::uint64_t i = 1; i < limits::credit_operations; ++i) {
    CHECK_FALSE(ledger.count(stream_a, 0));
    CHECK_FALSE(ledger.count(legacy, 0));
  }
  CHECK(ledger.count(legacy, 0));
  CHECK(ledger.mark(legacy).operations == limits::credit_operations);
  CHECK(ledger.count(stream_a, 0));
}

TEST_CASE("large copies make a stream due before 64 operations") {
  credit_ledger ledger;
  CHECK_FALSE(ledger.count(stream_a, 1u << 20));
  CHECK_FALSE(ledger.count(stream_a, 1u << 20));
  CHECK_FALSE(ledger.count(stream_a, 1u << 20));
  CHECK(ledger.count(stream_a, 1u << 20));
  CHECK(ledger.mark(stream_a).bytes == limits::credit_stream_bytes);
}

TEST_CASE(
    "the tails of many streams become due together, so that a client at its byte limit never waits "
    "for ever") {
  credit_ledger ledger;
  CHECK_FALSE(ledger.count(stream_a, limits::credit_session_bytes / 2));
  CHECK_FALSE(ledger.session_due());
  CHECK_FALSE(ledger.count(stream_b, limits::credit_session_bytes / 2));
  CHECK(ledger.session_due());
  CHECK(ledger.streams_with_unmarked_bytes().size() == 2);
  ledger.mark(stream_a);
  CHECK_FALSE(ledger.session_due());
  CHECK(ledger.streams_with_unmarked_bytes() == std::vector<credit_key>{stream_b});
}

TEST_CASE("a stream that is gone counts from the beginning and owes no bytes") {
  credit_ledger ledger;
  ledger.count(stream_a, limits::credit_session_bytes);
  REQUIRE(ledger.session_due());
  ledger.forget(stream_a);
  CHECK_FALSE(ledger.session_due());
  ledger.count(stream_a, 5);
  CHECK(ledger.mark(stream_a).operations == 1);
}

TEST_CASE("a lane and a context take their default streams with them") {
  credit_ledger ledger;
  ledger.count(per_thread, 10);
  ledger.count(legacy, 10);
  ledger.count(stream_a, 10);
  ledger.forget_lane(7);
  CHECK(ledger.streams_with_unmarked_bytes().size() == 2);
  ledger.forget_context(1);
  CHECK(ledger.streams_with_unmarked_bytes() == std::vector<credit_key>{stream_a});
}
