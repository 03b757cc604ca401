// SPDX-License-Identifier: Apache-2.0
// Life and death of sessions, and what a peer that breaks the rules achieves: its own end.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "test/catch.hpp"
#include "test/daemon/server_process.hpp"
#include "wire/handle.hpp"

using namespace daemon_test;
using namespace std::chrono_literals;

namespace {

struct raw_body {  // any bytes as a message
  std::vector<std::uint64_t> words;
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor& v) {
    for (auto& w : self.words) v(w);
  }
};

bool ends_within(test_client& c, std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
    wire::reply r;
    if (c.connection().call({msg::cuMemGetInfo_v2::call_id, 1, 1}, msg::cuMemGetInfo_v2::request{},
                            r) != wire::error::ok)
      return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

bool still_serves(const server_process& server) {
  test_client c(server.endpoint());
  if (!c.connected()) return false;
  return c.call<msg::session_open>({}).result == 0;
}

}  // namespace

TEST_CASE("a driver that is not there is a clear error at once") {
  const auto begin = std::chrono::steady_clock::now();
  const auto [code, text] = run_to_end({"--driver", "/nonexistent/libcuda.so.1", "--port", "0"});
  CHECK(code == 1);
  CHECK(text.find("/nonexistent/libcuda.so.1") != std::string::npos);
  CHECK(text.find("--driver") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  const auto [other_code, other_text] = run_to_end({"--driver", "libc.so.6", "--port", "0"});
  CHECK(other_code == 1);
  CHECK(other_text.find("not a usable CUDA driver") != std::string::npos);
}

TEST_CASE("a port that is taken and an address that is not ours are named") {
  server_process server;
  const auto port = std::to_string(server.endpoint().port);
  const auto [code, text] = run_to_end({"--driver", "soft", "--port", port});
  CHECK(code == 1);
  CHECK(text.find(port) != std::string::npos);
  const auto [other_code, other_text] =
      run_to_end({"--driver", "soft", "--port", "0", "--listen", "203.0.113.1", "--insecure"});
  CHECK(other_code == 1);
  CHECK(other_text.find("203.0.113.1") != std::string::npos);
}

TEST_CASE("sessions come and go, each in a process of its own; SIGTERM ends them all") {
  server_process server;
  auto a = std::make_unique<test_client>(server.endpoint());
  test_client b(server.endpoint());
  REQUIRE(a->connected());
  REQUIRE(b.connected());
  a->open();
  b.open();
  CHECK(server.workers().size() == 2);
  a->connection().goodbye(1000ms);
  a.reset();
  CHECK(server.wait_for_log("session ended session=1"));
  CHECK(server.log().find("reason=goodbye") != std::string::npos);
  CHECK(b.call<msg::cuMemGetInfo_v2>({true, true}).result == 0);
  const auto workers = server.workers();
  REQUIRE(workers.size() == 1);
  CHECK(server.stop() == 0);
  CHECK(::kill(workers[0], 0) != 0);
  CHECK(ends_within(b, 2000ms));
}

TEST_CASE("a worker that dies takes its session only, and the log says how") {
  server_process server;
  test_client a(server.endpoint()), b(server.endpoint());
  a.open();
  const auto first = server.workers();
  REQUIRE(first.size() == 2);
  ::kill(first[0], SIGKILL);
  CHECK(server.wait_for_log("signal 9"));
  CHECK((ends_within(a, 100ms) != ends_within(b, 100ms)));
  CHECK(still_serves(server));
}

TEST_CASE("malformed commands end their session, not the daemon") {
  server_process server;
  const auto breaks = [&](std::uint16_t call, const raw_body& body) {
    test_client c(server.endpoint());
    REQUIRE(c.connected());
    c.open();
    wire::reply r;
    (void)c.connection().call({call, 1, 1}, body, r);
    CHECK(ends_within(c, 2000ms));
  };
  breaks(msg::launch::call_id, {{}});
  breaks(msg::launch::call_id, {{1, 2, 3}});
  breaks(msg::copy_to_device::call_id, {{1, 2, 3, ~0ull}});
  breaks(msg::load_image::call_id,
         {{~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull}});
  breaks(msg::sync::call_id, {{~0ull, ~0ull}});
  breaks(msg::credit::call_id, {{}});
  CHECK(server.log().find("malformed launch") != std::string::npos);
  CHECK(still_serves(server));
}

TEST_CASE("an unknown call is not supported and harms nothing") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  wire::reply r;
  CHECK(c.connection().call({0xfffe, 1, 1}, raw_body{}, r) == wire::error::ok);
  CHECK(r.result == 801);
  CHECK(c.call<msg::cuMemGetInfo_v2>({true, true}).result == 0);
}

TEST_CASE("invented handles get the driver's codes") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  for (const std::uint64_t handle :
       {3ull, ~0ull, 0x7fffdeadbeefull,
        static_cast<unsigned long long>(wire::make_handle(0, 3, 1, 5)),
        static_cast<unsigned long long>(wire::make_handle(0, 4, 1, 5)),
        static_cast<unsigned long long>(wire::make_handle(0, 3, 1, 1u << 30))}) {
    CHECK(c.call<msg::sync>({0, handle}).result == 400);
    CHECK(c.call<msg::sync>({2, handle}).result == 400);
    CHECK(c.call<msg::sync>({1, handle}).result == 201);
    CHECK(c.call<msg::unload_image>({handle}).result == 400);
    CHECK(c.call<msg::context_destroy>({handle}).result == 201);
  }
  CHECK(c.call<msg::sync>({1, 0}).result == 0);
}

TEST_CASE("the error of a posted command arrives before the next reply") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  msg::event_record::request q;
  q.event = wire::make_handle(0, 4, 1, 77);
  REQUIRE(c.post<msg::event_record>(q) == wire::error::ok);
  CHECK(c.call<msg::sync>({1, 0}).result == 0);
  CHECK(c.posted_errors() == std::vector<std::int32_t>{400});
}

TEST_CASE("posted operations are credited, the bytes of a short tail too") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  const auto address = c.allocate(1u << 20);
  msg::memset::request q;
  q.destination = address;
  q.element_bytes = 1;
  q.width = 16;
  for (int i = 0; i < 200; ++i) REQUIRE(c.post<msg::memset>(q) == wire::error::ok);
  REQUIRE(c.call<msg::sync>({1, 0}).result == 0);
  const auto wait_for = [&](std::uint64_t operations) {
    for (int i = 0; i < 200 && c.operations_completed() < operations; ++i)
      std::this_thread::sleep_for(10ms);
    return c.operations_completed();
  };
  CHECK(wait_for(192) == 192);
  std::vector<std::byte> data(1u << 20);
  msg::copy_to_device::request copy;
  copy.destination = address;
  copy.bytes = data.size();
  copy.data = {data.data(), data.size()};
  REQUIRE(c.post<msg::copy_to_device>(copy) == wire::error::ok);
  REQUIRE(c.connection().flush() == wire::error::ok);
  CHECK(wait_for(201) == 201);
}

TEST_CASE("no more sessions than allowed, and room again after an end") {
  server_process server({"--sessions-max", "1"});
  auto a = std::make_unique<test_client>(server.endpoint());
  REQUIRE(a->connected());
  test_client refused(server.endpoint());
  CHECK_FALSE(refused.connected());
  CHECK(refused.failure().find("--sessions-max") != std::string::npos);
  a->connection().goodbye(1000ms);
  a.reset();
  REQUIRE(server.wait_for_log("session ended"));
  CHECK(still_serves(server));
}

TEST_CASE("thousands of silent connections do not keep an honest client out") {
  server_process server;
  std::vector<int> silent;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.endpoint().port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 800; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) break;
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
      silent.push_back(fd);
    else
      ::close(fd);
  }
  CHECK(silent.size() > 500);
  CHECK(still_serves(server));
  for (const int fd : silent) ::close(fd);
}
