// SPDX-License-Identifier: Apache-2.0
// A small server for the tests: accepts on an ephemeral loopback port, shakes hands, collects the
// connections of one session and runs an executor thread for it. And the messages that it
// understands.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "test/catch.hpp"
#include "wire/client.hpp"
#include "wire/handshake.hpp"
#include "wire/parking.hpp"
#include "wire/server.hpp"

namespace wire_test {

using namespace gpuwire::wire;
using namespace std::chrono_literals;

struct note {
  std::uint64_t value = 0;
  std::string_view text;
  bytes_view payload;
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor& v) {
    v(self.value);
    v(self.text);
    v(self.payload);
  }
};
struct nothing {
  template <class Self, class Visitor>
  static void visit(Self&, Visitor&) {}
};

// For threads other than the test's own, where the assertions of the test library may not be used.
inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed outside the test's thread: %s\n", what);
  std::abort();
}
#define MUST(condition) ::wire_test::must((condition), #condition)

inline int listen_on_loopback(std::uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      listen(fd, 16) != 0 || getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
    throw std::runtime_error("cannot listen on loopback");
  port = ntohs(address.sin_port);
  return fd;
}

// Shared between the test's thread and the server's: what a reply orders is not seen as ordered by
// a race detector.
template <class Element>
class guarded {
 public:
  template <class... Arguments>
  void add(Arguments&&... arguments) {
    std::lock_guard lock(mutex_);
    elements_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  std::vector<Element> take() {
    std::lock_guard lock(mutex_);
    return std::move(elements_);
  }
  std::size_t size() {
    std::lock_guard lock(mutex_);
    return elements_.size();
  }

 private:
  std::mutex mutex_;
  std::vector<Element> elements_;
};

class test_server {
 public:
  using handler = std::function<void(server_session&, const received_frame&)>;

  explicit test_server(handler h, std::string token = {})
      : handler_(std::move(h)), token_(std::move(token)), listener_(listen_on_loopback(port_)) {
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~test_server() {
    stop_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    end_session();
  }

  client_options options(std::uint32_t bulk = 1) const {
    client_options o;
    o.server = {"127.0.0.1", port_};
    o.token = token_;
    o.bulk_connections = bulk;
    o.connect_deadline = 20s;
    return o;
  }
  std::uint16_t port() const { return port_; }

  // As if the worker had died.
  void end_session() {
    leave_ = true;
    std::thread executor;
    {
      std::lock_guard lock(mutex_);
      executor = std::move(executor_);
    }
    if (executor.joinable()) executor.join();
    std::unique_ptr<server_session> session;
    {
      std::lock_guard lock(mutex_);
      session = std::move(session_);
    }
  }
  struct heard {
    std::uint16_t call = 0;
    std::uint32_t lane = 0;
    std::uint64_t value = 0;
  };
  guarded<heard> notices;

  std::string lost_text() {
    std::lock_guard lock(mutex_);
    return lost_text_;
  }
  error lost_code() const { return lost_code_; }
  bool said_goodbye() const { return goodbye_; }
  void wait_until_over() {
    for (int i = 0; i < 2000 && !over_; ++i) std::this_thread::sleep_for(5ms);
    REQUIRE(over_);
  }

 private:
  void accept_all() {
    while (!stop_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const timeval limit{10, 0};
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      shake_hands(fd);
    }
  }

  void shake_hands(int fd) {
    server_handshake shake(token_);
    std::vector<std::byte> out;
    auto state = handshake_state::need_bytes;
    while (state == handshake_state::need_bytes) {
      std::byte in[512];
      const auto n = ::recv(fd, in, std::min(sizeof in, shake.wanted()), 0);
      if (n <= 0) break;
      out.clear();
      state = shake.advance({in, static_cast<std::size_t>(n)}, out);
      if (!out.empty()) ::send(fd, out.data(), out.size(), MSG_NOSIGNAL);
    }
    if (state != handshake_state::done) {
      ::close(fd);
      return;
    }
    const timeval none{0, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    welcome w;
    w.session = {42};
    const auto answer = shake.accept(w);
    ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    if (shake.request().role == connection_role::command)
      start(fd);
    else if (auto* session = current_session())
      session->attach(shake.request().role, fd);
    else
      ::close(fd);
  }

  void start(int fd) {
    server_session::options o;
    o.on_lost = [this](error code, const std::string& text) {
      std::lock_guard lock(mutex_);
      lost_code_ = code;
      lost_text_ = text;
    };
    o.on_notice = [this](std::uint16_t call, std::uint32_t lane, decoder& body) {
      note n;
      if (!decode_from(body, n)) return false;
      notices.add(heard{call, lane, n.value});
      return true;
    };
    std::lock_guard lock(mutex_);
    session_ = server_session::create(fd, std::move(o));
    executor_ = std::thread([this, &s = *session_] { execute(s); });
  }

  server_session* current_session() {
    std::lock_guard lock(mutex_);
    return session_.get();
  }

  void execute(server_session& s) {
    auto since = std::chrono::steady_clock::now();
    while (!leave_ && s.state() == error::ok) {
      if (const auto frame = s.next_frame()) {
        handler_(s, *frame);
        since = std::chrono::steady_clock::now();
      } else if (std::chrono::steady_clock::now() - since > 50us) {
        s.wait_readable(50ms);
      }
    }
    goodbye_ = s.said_goodbye();
    over_ = true;
  }

  handler handler_;
  std::string token_;
  std::uint16_t port_ = 0;
  int listener_;
  std::thread acceptor_, executor_;
  std::mutex mutex_;
  std::unique_ptr<server_session> session_;
  std::atomic<bool> stop_{false}, leave_{false}, goodbye_{false}, over_{false};
  std::string lost_text_;
  std::atomic<error> lost_code_{error::ok};
};

inline std::unique_ptr<client> connected(client_options o) {
  auto result = client::connect(std::move(o));
  if (auto* failure = std::get_if<connect_failure>(&result)) FAIL(failure->text);
  return std::move(std::get<std::unique_ptr<client>>(result));
}

inline note decoded(const received_frame& f) {
  note n;
  decoder d(f.body.data(), f.body.size());
  if (!decode_from(d, n)) throw std::runtime_error("a note was malformed");
  return n;
}

}  // namespace wire_test
