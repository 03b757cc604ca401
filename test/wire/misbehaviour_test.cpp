// SPDX-License-Identifier: Apache-2.0
// Peers that die, stall, or send what they may not: sessions end with a reason, nobody hangs.
#include <cstring>

#include "test/wire/session_fixture.hpp"
#include "wire/limits.hpp"

using namespace wire_test;

namespace {

struct losses {
  std::mutex mutex;
  int count = 0;
  error code{};
  std::string text;

  client_options watched(client_options o) {
    o.on_lost = [this](error c, const std::string& t) {
      std::lock_guard lock(mutex);
      ++count;
      code = c;
      text = t;
    };
    return o;
  }
  void wait() {
    for (int i = 0; i < 2000; ++i) {
      {
        std::lock_guard lock(mutex);
        if (count > 0) return;
      }
      std::this_thread::sleep_for(5ms);
    }
    FAIL("nobody noticed the loss");
  }
};

int connect_raw(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

// A client that is only a handshake; what comes then is written by hand.
int raw_session(const test_server& server, connection_role role, session_id session = {}) {
  const int fd = connect_raw(server.port());
  hello h;
  h.role = role;
  h.session = session;
  client_handshake shake("", h);
  std::vector<std::byte> out;
  auto state = shake.advance({}, out);
  while (state == handshake_state::need_bytes) {
    if (!out.empty()) ::send(fd, out.data(), out.size(), MSG_NOSIGNAL);
    out.clear();
    std::byte in[512];
    const auto n = ::recv(fd, in, std::min(sizeof in, shake.wanted()), 0);
    REQUIRE(n > 0);
    state = shake.advance({in, static_cast<std::size_t>(n)}, out);
  }
  REQUIRE(state == handshake_state::done);
  return fd;
}

std::string after_frame(frame_header h, std::size_t body_bytes_sent, error expected) {
  test_server server([](server_session&, const received_frame&) {});
  const int fd = raw_session(server, connection_role::command);
  std::vector<std::byte> bytes(sizeof h + body_bytes_sent);
  std::memcpy(bytes.data(), &h, sizeof h);
  ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  server.wait_until_over();
  for (int i = 0; i < 1000 && server.lost_code() == error::ok; ++i)
    std::this_thread::sleep_for(1ms);
  CHECK(server.lost_code() == expected);
  ::close(fd);
  return server.lost_text();
}

frame_header posted(std::uint64_t sequence) {
  frame_header h;
  h.kind = frame_kind::command_posted;
  h.sequence = sequence;
  return h;
}

}  // namespace

TEST_CASE("a server that dies in the middle of calls releases every caller", "[loss]") {
  std::atomic<int> waiting{0};
  auto server =
      std::make_unique<test_server>([&](server_session&, const received_frame&) { ++waiting; });
  losses lost;
  auto c = connected(lost.watched(server->options()));
  std::vector<std::thread> threads;
  std::atomic<int> released{0};
  std::vector<std::byte> memory(1000);
  for (std::uint32_t lane = 1; lane <= 5; ++lane) {
    threads.emplace_back([&, lane] {
      reply r;
      transfer t;
      if (lane == 1) t.receive = memory;
      if (c->call({1, lane, 0}, note{}, r, t) == error::connection_lost) ++released;
    });
  }
  for (int i = 0; i < 2000 && waiting < 5; ++i) std::this_thread::sleep_for(1ms);
  REQUIRE(waiting == 5);
  server->end_session();
  for (auto& t : threads) t.join();
  CHECK(released == 5);
  lost.wait();
  CHECK(lost.count == 1);
  CHECK(lost.code == error::connection_lost);
  CHECK(lost.text.find("127.0.0.1:" + std::to_string(server->port())) != std::string::npos);
  CHECK(lost.text.find("gpuwired") != std::string::npos);
  CHECK(c->state_text() == lost.text);
  CHECK(c->post({1, 1, 0}, note{}) == error::connection_lost);
  reply r;
  CHECK(c->call({1, 1, 0}, note{}, r) == error::connection_lost);
  CHECK(lost.count == 1);
}

TEST_CASE("an idle client learns of the loss without a call", "[loss]") {
  auto server = std::make_unique<test_server>([](server_session&, const received_frame&) {});
  losses lost;
  auto c = connected(lost.watched(server->options()));
  server->end_session();
  lost.wait();
  CHECK(c->state() == error::connection_lost);
}

TEST_CASE("the server dies during a large upload", "[loss]") {
  test_server server([](server_session&, const received_frame&) {});  // never takes the data
  losses lost;
  auto c = connected(lost.watched(server.options(2)));
  std::vector<std::byte> data(256u << 20);
  error code{};
  std::thread caller([&] {
    reply r;
    transfer t;
    t.send = data;
    code = c->call({1, 1, 0}, note{}, r, t);
  });
  std::this_thread::sleep_for(100ms);
  server.end_session();
  caller.join();
  CHECK(code == error::connection_lost);
}

TEST_CASE("a sink learns that its client is gone", "[loss]") {
  struct sink final : bulk_sink {
    std::vector<std::byte> data = std::vector<std::byte>(8u << 20);
    std::atomic<int> told{0};
    std::span<std::byte> place(std::uint64_t offset, std::uint32_t bytes) override {
      return std::span(data).subspan(offset, bytes);
    }
    void arrived(std::uint64_t, std::uint32_t) override {}
    void lost() override { ++told; }
  };
  const auto s = std::make_shared<sink>();
  test_server server([s](server_session& session, const received_frame& f) {
    session.expect_bulk(f.header.sequence, s, s->data.size());
  });
  const int command = raw_session(server, connection_role::command);
  const int bulk = raw_session(server, connection_role::bulk, {42});
  auto h = posted(1);
  h.flags = frame_flags::bulk;
  ::send(command, &h, sizeof h, MSG_NOSIGNAL);
  bulk_header chunk{1, 0, 4096, 0};
  std::vector<std::byte> half(sizeof chunk + 2000);
  std::memcpy(half.data(), &chunk, sizeof chunk);
  ::send(bulk, half.data(), half.size(), MSG_NOSIGNAL);
  std::this_thread::sleep_for(50ms);
  ::close(bulk);
  server.wait_until_over();
  for (int i = 0; i < 1000 && s->told == 0; ++i) std::this_thread::sleep_for(1ms);
  CHECK(s->told == 1);
  ::close(command);
}

TEST_CASE("a client that reads nothing does not stop the executor", "[slow]") {
  std::atomic<int> executed{0};
  const std::vector<std::byte> payload(60'000);
  test_server server([&](server_session& s, const received_frame& f) {
    MUST(s.reply(f.header.sequence, 0, 0, note{0, "", {payload.data(), payload.size()}}) ==
         error::ok);
    MUST(s.push(note{0, "", {payload.data(), payload.size()}}, 7) == error::ok);
    ++executed;
  });
  const int command = raw_session(server, connection_role::command);
  const int side = raw_session(server, connection_role::side, {42});
  constexpr int count = 800;  // 48 MB each way: more than the sockets hold
  for (int i = 1; i <= count; ++i) {
    auto h = posted(static_cast<std::uint64_t>(i));
    note empty;
    h.body_bytes = static_cast<std::uint32_t>(encoded_bytes(empty));
    std::vector<std::byte> bytes(sizeof h + h.body_bytes);
    std::memcpy(bytes.data(), &h, sizeof h);
    REQUIRE(::send(command, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<long>(bytes.size()));
  }
  for (int i = 0; i < 4000 && executed < count; ++i) std::this_thread::sleep_for(5ms);
  CHECK(executed == count);
  // And what was kept arrives, whole, once it is read.
  std::vector<std::byte> in(1u << 20);
  std::uint64_t bytes = 0;
  note n{0, "", {payload.data(), payload.size()}};
  const auto expected = count * (frame_header_bytes + reply_prefix_bytes + encoded_bytes(n));
  while (bytes < expected) {
    const auto got = ::recv(command, in.data(), in.size(), 0);
    REQUIRE(got > 0);
    bytes += static_cast<std::uint64_t>(got);
  }
  CHECK(bytes == expected);
  ::close(side);
  ::close(command);
}

TEST_CASE("frames that a client may not send end its session with a reason", "[garbage]") {
  CHECK(after_frame(posted(2), 0, error::protocol_violation).find("command 2 where 1") !=
        std::string::npos);
  auto h = posted(1);
  h.kind = frame_kind::reply;
  CHECK(after_frame(h, 0, error::protocol_violation).find("no command") != std::string::npos);
  h.kind = frame_kind{77};
  CHECK(after_frame(h, 0, error::protocol_violation).find("malformed") != std::string::npos);
  h = posted(1);
  h.body_bytes = 0xfffffff8;
  CHECK(after_frame(h, 0, error::protocol_violation).find("size limit") != std::string::npos);
  h.body_bytes = limits::frame_bytes_max + 8;
  CHECK(after_frame(h, 0, error::protocol_violation).find("size limit") != std::string::npos);
}

TEST_CASE("bulk data beyond what was announced ends the session", "[garbage]") {
  test_server server([](server_session& s, const received_frame& f) {
    s.expect_bulk(f.header.sequence, nullptr, 1000);
  });
  const int command = raw_session(server, connection_role::command);
  const int bulk = raw_session(server, connection_role::bulk, {42});
  auto h = posted(1);
  ::send(command, &h, sizeof h, MSG_NOSIGNAL);
  const auto send_chunk = [bulk](std::uint64_t offset, std::uint32_t bytes) {
    bulk_header chunk{1, offset, bytes, 0};
    std::vector<std::byte> whole(sizeof chunk + bytes);
    std::memcpy(whole.data(), &chunk, sizeof chunk);
    ::send(bulk, whole.data(), whole.size(), MSG_NOSIGNAL);
  };
  send_chunk(0, 600);  // a null sink throws it away
  send_chunk(500, 501);
  server.wait_until_over();
  CHECK(server.lost_code() == error::protocol_violation);
  ::close(bulk);
  ::close(command);
}

TEST_CASE("a reply that nobody waits for ends the client's session", "[garbage]") {
  test_server server([](server_session& s, const received_frame& f) {
    MUST(s.reply(f.header.sequence + 5, 0, 0, nothing{}) == error::ok);
  });
  losses lost;
  auto c = connected(lost.watched(server.options()));
  reply r;
  CHECK(c->call({1, 1, 0}, note{}, r) == error::protocol_violation);
  lost.wait();
  CHECK(lost.text.find("release") != std::string::npos);
}

TEST_CASE("bulk data outside the memory of its caller ends the client's session", "[garbage]") {
  guarded<std::thread> senders;
  test_server server([&](server_session& s, const received_frame& f) {
    senders.add([&s, sequence = f.header.sequence] {
      const std::vector<std::byte> data(2000);
      const auto code = s.send_bulk(sequence, 0, data);  // the client may already have hung up
      MUST(code == error::ok || code == error::connection_lost);
    });
  });
  auto c = connected(server.options());
  std::vector<std::byte> memory(1999);
  reply r;
  transfer t;
  t.receive = memory;
  CHECK(c->call({1, 1, 0}, note{}, r, t) == error::protocol_violation);
  for (auto& sender : senders.take()) sender.join();
}
