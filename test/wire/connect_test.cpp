// SPDX-License-Identifier: Apache-2.0
// The way to a server that is not there, not ready, or something else: each time a prompt and clear
// answer.
#include <cstring>

#include "test/wire/session_fixture.hpp"

using namespace wire_test;

namespace {

struct outcome {
  error code;
  std::string text;
  std::chrono::milliseconds took;
};

outcome try_connect(client_options o) {
  const auto start = std::chrono::steady_clock::now();
  auto result = client::connect(std::move(o));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  if (auto* failure = std::get_if<connect_failure>(&result))
    return {failure->code, failure->text, took};
  return {error::ok, "", took};
}

client_options options_for(std::uint16_t port, std::chrono::milliseconds deadline = 5s) {
  client_options o;
  o.server = {"127.0.0.1", port};
  o.connect_deadline = deadline;
  return o;
}

bool says(const outcome& o, std::string_view what) {
  return o.text.find(what) != o.text.npos;
}

// Accepts one connection, says something, and keeps it open or not.
class strange_server {
 public:
  strange_server(std::string says, bool closes) : listener_(listen_on_loopback(port_)) {
    thread_ = std::thread([this, says, closes] {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      if (!says.empty()) ::send(fd, says.data(), says.size(), MSG_NOSIGNAL);
      char in[4096];
      while (!closes && ::recv(fd, in, sizeof in, 0) > 0) {
      }
      ::close(fd);
    });
  }
  ~strange_server() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  std::uint16_t port() const { return port_; }

 private:
  std::uint16_t port_ = 0;
  int listener_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a refused connection is retried for a moment, then named", "[connect]") {
  std::uint16_t port = 0;
  ::close(listen_on_loopback(port));
  const auto o = try_connect(options_for(port, 20s));
  CHECK(o.code == error::refused_connection);
  CHECK(o.took < 3s);
  CHECK(says(o, "127.0.0.1:" + std::to_string(port)));
  CHECK(says(o, "refused"));
  CHECK(says(o, "start gpuwired"));
}

TEST_CASE("a server that is just starting is waited for", "[connect]") {
  std::uint16_t port = 0;
  ::close(listen_on_loopback(port));
  std::thread late([port] {
    std::this_thread::sleep_for(200ms);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
        listen(fd, 4) == 0) {
      const int peer = ::accept(fd, nullptr, nullptr);
      ::send(peer, "SSH-2.0-x\r\n", 11, MSG_NOSIGNAL);
      ::close(peer);
    }
    ::close(fd);
  });
  const auto o = try_connect(options_for(port));
  late.join();
  CHECK(o.code == error::not_gpuwire);  // it was reached
  CHECK(says(o, "SSH"));
}

TEST_CASE("a server that says nothing ends at the deadline", "[connect]") {
  strange_server server("", false);
  const auto o = try_connect(options_for(server.port(), 300ms));
  CHECK(o.code == error::timed_out);
  CHECK(o.took >= 290ms);
  CHECK(o.took < 3s);
  CHECK(says(o, "0.3 s"));
}

TEST_CASE("half a greeting ends at the deadline, too", "[connect]") {
  strange_server server("gpuwire\x1a\x01", false);
  const auto o = try_connect(options_for(server.port(), 300ms));
  CHECK(o.code == error::timed_out);
  CHECK(says(o, "handshake"));
}

TEST_CASE("other services are named at once", "[connect]") {
  strange_server http("HTTP/1.0 400 Bad Request\r\n\r\n", false);
  const auto o = try_connect(options_for(http.port()));
  CHECK(o.code == error::not_gpuwire);
  CHECK(says(o, "HTTP"));
  CHECK(o.took < 2s);
  strange_server closes("", true);
  CHECK(try_connect(options_for(closes.port())).code != error::ok);
}

TEST_CASE("an unknown name is named", "[connect]") {
  auto o = options_for(1);
  o.server.host = "no-such-host.invalid";
  const auto result = try_connect(o);
  // A machine without a network may only learn it at the deadline.
  CHECK((result.code == error::not_resolved || result.code == error::timed_out));
  CHECK(says(result, "no-such-host.invalid"));
}

TEST_CASE("localhost reaches a server on either of its addresses", "[connect]") {
  test_server server([](server_session&, const received_frame&) {});
  auto o = server.options();
  o.server.host = "localhost";
  CHECK(connected(o)->server_name() == "localhost:" + std::to_string(server.port()));
}

TEST_CASE("a token opens, a wrong one does not", "[connect]") {
  test_server server([](server_session&, const received_frame&) {}, "open sesame");
  auto o = server.options();
  o.token = "open barley";
  const auto wrong = try_connect(o);
  CHECK(wrong.code == error::authentication_failed);
  CHECK_FALSE(says(wrong, "barley"));
  CHECK_FALSE(says(wrong, "sesame"));
  o.token = "open sesame";
  CHECK(connected(o)->state() == error::ok);
}
