// SPDX-License-Identifier: Apache-2.0
// The dialogue between the executor and the decider: offers, further commands, passing time.
#include "daemon/waiters.hpp"

#include <string>

#include "test/catch.hpp"

using namespace gpuwire::daemon;
using namespace std::chrono_literals;

namespace {
const std::chrono::steady_clock::time_point start{};
}

TEST_CASE("the newest wait is polled until its time is over") {
  newest_wait<std::string> w(50us);
  CHECK(w.polled() == nullptr);
  CHECK_FALSE(w.on_idle(start));
  CHECK_FALSE(w.offer("a", start));
  REQUIRE(w.polled() != nullptr);
  CHECK(*w.polled() == "a");
  CHECK_FALSE(w.on_idle(start + 49us));
  CHECK(w.on_idle(start + 50us) == "a");
  CHECK(w.polled() == nullptr);
  CHECK_FALSE(w.on_idle(start + 60us));
}

TEST_CASE("a further command hands the wait over at once") {
  newest_wait<std::string> w(50us);
  CHECK_FALSE(w.on_command());
  w.offer("a", start);
  CHECK(w.on_command() == "a");
  CHECK_FALSE(w.on_command());
}

TEST_CASE("a second wait displaces the first and gets the full time") {
  newest_wait<std::string> w(50us);
  w.offer("a", start);
  CHECK(w.offer("b", start + 40us) == "a");
  CHECK_FALSE(w.on_idle(start + 60us));
  CHECK(w.on_idle(start + 90us) == "b");
}

TEST_CASE("a wait that was reached is taken once") {
  newest_wait<std::string> w(50us);
  w.offer("a", start);
  CHECK(w.take() == "a");
  CHECK_FALSE(w.take());
  CHECK_FALSE(w.on_command());
}
