// SPDX-License-Identifier: Apache-2.0
#include "daemon/watchdog.hpp"

#include <sys/socket.h>

#include <string>
#include <thread>

#include "daemon/control_channel.hpp"
#include "daemon/limits.hpp"
#include "test/catch.hpp"

using namespace gpuwire::daemon;
using namespace std::chrono_literals;

TEST_CASE("a session ends some time after its last connection, unless another comes") {
  const std::chrono::steady_clock::time_point now{};
  end_of_session over;
  over.opened();
  over.opened();
  over.ended(now);
  CHECK_FALSE(over.deadline());
  over.ended(now);
  REQUIRE(over.deadline());
  CHECK(*over.deadline() == now + limits::lost_grace);
  over.opened();
  CHECK_FALSE(over.deadline());
  over.ended(now + 5s);
  CHECK(*over.deadline() == now + 5s + limits::lost_grace);
}

namespace {
struct dog_fixture {
  dog_fixture() {
    auto pair = make_control_pair();
    REQUIRE(pair);
    ours = std::move(pair->first);
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    client = descriptor(ends[0]);
    server = descriptor(ends[1]);
    dog = std::make_unique<watchdog>(
        std::move(pair->second),
        [this](gpuwire::wire::connection_role role, int fd) {
          attached.push_back(role);
          descriptor(fd).reset();
        },
        [this](const std::string& why) {
          if (reason.empty()) reason = why;
        },
        [](descriptor) {});
    dog->watch(server.get());
  }
  descriptor ours, client, server;
  std::unique_ptr<watchdog> dog;
  std::vector<gpuwire::wire::connection_role> attached;
  std::string reason;
};
}  // namespace

TEST_CASE_METHOD(dog_fixture,
                 "a client that vanishes ends the session within the grace, unread data or not") {
  REQUIRE(::write(client.get(), "unread", 6) == 6);
  const auto begin = std::chrono::steady_clock::now();
  client.reset();
  dog->run();
  const auto lasted = std::chrono::steady_clock::now() - begin;
  CHECK(reason == "all connections ended without goodbye");
  CHECK(lasted >= limits::lost_grace - 50ms);
  CHECK(lasted < limits::lost_grace + 1s);
}

TEST_CASE_METHOD(dog_fixture,
                 "connections are passed on; the daemon's end ends the session at once") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  descriptor far(ends[0]), near(ends[1]);
  CHECK(send_control(ours.get(), {control_kind::attach, gpuwire::wire::connection_role::side},
                     near.get()));
  ours.reset();
  dog->run();
  CHECK(attached == std::vector{gpuwire::wire::connection_role::side});
  CHECK(reason == "the daemon is gone");
}

TEST_CASE_METHOD(dog_fixture, "an order to end is obeyed") {
  CHECK(send_control(ours.get(), {control_kind::end, {}}));
  dog->run();
  CHECK(reason == "the daemon shuts down");
}
