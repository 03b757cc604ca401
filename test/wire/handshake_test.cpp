// SPDX-License-Identifier: Apache-2.0
// The handshake as a dialogue between its two deciders, without sockets; then with liars on either
// side.
#include "wire/handshake.hpp"

#include <cstring>
#include <string>

#include "test/catch.hpp"
#include "wire/handshake_messages.hpp"
#include "wire/limits.hpp"

using namespace gpuwire::wire;

namespace {

using bytes = std::vector<std::byte>;

bytes text_bytes(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

hello new_session() {
  hello h;
  h.features = 5;
  h.process_key = 77;
  h.environment = {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"CUDA_LAUNCH_BLOCKING", ""}};
  return h;
}

struct dialogue {
  client_handshake client;
  server_handshake server;
  handshake_state client_state{}, server_state{};
  bytes to_server, to_client, said_by_client, said_by_server;

  dialogue(const std::string& client_token, const std::string& server_token,
           const hello& h = new_session())
      : client(client_token, h), server(server_token) {
    client_state = client.advance({}, to_server);
  }

  // Until neither has anything to say; pieces of `piece` bytes.
  void run(std::size_t piece = 1u << 20) {
    while (!to_server.empty() || !to_client.empty()) {
      deliver(to_server, said_by_client, piece,
              [this](auto in) { server_state = server.advance(in, to_client); });
      if (server_state == handshake_state::done && client_state != handshake_state::done) {
        const auto answer = server.accept({session_id{1, 2, 3}, 9});
        to_client.insert(to_client.end(), answer.begin(), answer.end());
      }
      deliver(to_client, said_by_server, piece,
              [this](auto in) { client_state = client.advance(in, to_server); });
    }
  }

  template <class Take>
  static void deliver(bytes& queue, bytes& log, std::size_t piece, Take take) {
    const bytes now = std::exchange(queue, {});
    log.insert(log.end(), now.begin(), now.end());
    for (std::size_t at = 0; at < now.size(); at += piece)
      take(std::span(now).subspan(at, std::min(piece, now.size() - at)));
  }
};

bool contains(const bytes& where, std::string_view what) {
  return std::string_view(reinterpret_cast<const char*>(where.data()), where.size()).find(what) !=
         std::string_view::npos;
}

}  // namespace

TEST_CASE("both sides come to know each other, with and without a token", "[handshake]") {
  for (const std::string token : {"", "the secret token"}) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
      dialogue d(token, token);
      d.run(piece);
      REQUIRE(d.client_state == handshake_state::done);
      REQUIRE(d.server_state == handshake_state::done);
      CHECK(d.server.request().environment == new_session().environment);
      CHECK(d.server.request().process_key == 77);
      CHECK(d.client.result().session == session_id{1, 2, 3});
      CHECK(d.client.result().features == 9);
      CHECK_FALSE(contains(d.said_by_client, "secret"));
      CHECK_FALSE(contains(d.said_by_server, "secret"));
    }
  }
}

TEST_CASE("nothing but magic and version is said to a server that has not proved itself",
          "[handshake]") {
  dialogue d("token", "token");
  bytes greeting, proof;
  d.server.advance(d.to_server, greeting);
  d.client.advance(greeting, proof);
  CHECK(d.to_server.size() == 16);
  CHECK(proof.size() == 64);
  CHECK_FALSE(contains(proof, "CUDA"));
}

TEST_CASE("a wrong, missing or unwanted token is named and never shown", "[handshake]") {
  dialogue wrong("wrong token", "right token");
  wrong.run();
  CHECK(wrong.client_state == handshake_state::failed);
  CHECK(wrong.server_state == handshake_state::failed);
  CHECK(wrong.client.code() == error::authentication_failed);
  CHECK(wrong.server.code() == error::authentication_failed);
  CHECK(wrong.client.reason().find("right") == std::string::npos);
  CHECK(wrong.server.reason().find("right token") == std::string::npos);

  dialogue missing("", "right token");
  missing.run();
  CHECK(missing.client.code() == error::authentication_failed);
  CHECK(missing.client.reason().find("none was given") != std::string::npos);

  dialogue unwanted("token", "");
  unwanted.run();
  CHECK(unwanted.client.code() == error::authentication_failed);
}

TEST_CASE("a proof that was overheard opens nothing", "[handshake]") {
  dialogue good("token", "token");
  good.run();
  server_handshake again("token");
  bytes answer;
  CHECK(again.advance(good.said_by_client, answer) == handshake_state::failed);
  CHECK(again.code() == error::authentication_failed);

  // Nor does the server's side of it convince a client.
  client_handshake client("token", new_session());
  bytes out;
  client.advance({}, out);
  CHECK(client.advance(good.said_by_server, out) == handshake_state::failed);
  CHECK(client.code() == error::authentication_failed);
}

TEST_CASE("a server that sends the client's own proof back is an impostor", "[handshake]") {
  using namespace handshake_messages;
  client_handshake client("token", new_session());
  bytes out;
  client.advance({}, out);
  bytes in;
  put(in, greeting{magic, protocol_version, token_needed, {}});
  out.clear();
  client.advance(in, out);
  client_proof p;
  REQUIRE(take(out, p));
  in.clear();
  put(in, server_proof{verdict::accepted, 0, p.proof});
  CHECK(client.advance(in, out) == handshake_state::failed);
  CHECK(client.reason().find("impostor") != std::string::npos);
}

TEST_CASE("other protocols are recognised by their first bytes", "[handshake]") {
  struct row {
    std::string said, expected;
  };
  const row rows[] = {{"GET / HTTP/1.1\r\n", "HTTP"},
                      {"HTTP/1.1 400 Bad Request\r\n", "HTTP"},
                      {std::string("\x16\x03\x01\x02\x00\x01", 6), "TLS"},
                      {std::string("\x15\x03\x01\x00\x02", 5), "TLS"},
                      {"SSH-2.0-OpenSSH_9.2\r\n", "SSH"},
                      {std::string(16, '\0'), "zero bytes"},
                      {"xyz", "does not speak gpuwire"},
                      {"gpuwirf", "does not speak gpuwire"}};
  for (const auto& r : rows) {
    INFO(r.expected);
    server_handshake server("token");
    bytes out;
    CHECK(server.advance(text_bytes(r.said), out) == handshake_state::failed);
    CHECK(server.code() == error::not_gpuwire);
    CHECK(server.reason().find(r.expected) != std::string::npos);
    CHECK(out.empty());

    client_handshake client("", new_session());
    client.advance({}, out);
    CHECK(client.advance(text_bytes(r.said), out) == handshake_state::failed);
    CHECK(client.code() == error::not_gpuwire);
    CHECK(client.reason().find(r.expected) != std::string::npos);
  }
}

TEST_CASE("different versions name both, on both sides", "[handshake]") {
  using namespace handshake_messages;
  bytes opening_of_next, out;
  put(opening_of_next, opening{magic, protocol_version + 1, 0});
  server_handshake server("");
  CHECK(server.advance(opening_of_next, out) == handshake_state::failed);
  CHECK(server.code() == error::version_mismatch);
  CHECK(server.reason().find("version 2") != std::string::npos);
  CHECK(server.reason().find("server 1") != std::string::npos);
  CHECK(out.size() == sizeof(greeting));  // so that the client can say it, too

  bytes greeting_of_next, ignored;
  put(greeting_of_next, opening{magic, protocol_version + 6, 0});  // a shorter one than ours
  client_handshake client("", new_session());
  client.advance({}, ignored);
  CHECK(client.advance(greeting_of_next, ignored) == handshake_state::failed);
  CHECK(client.code() == error::version_mismatch);
  CHECK(client.reason().find("version 7") != std::string::npos);
  CHECK(client.reason().find("client 1") != std::string::npos);
}

TEST_CASE("a refusal carries its reason, made fit for a terminal", "[handshake]") {
  dialogue d("", "");
  d.server.advance(std::exchange(d.to_server, {}), d.to_client);
  d.client.advance(std::exchange(d.to_client, {}), d.to_server);
  REQUIRE(d.server.advance(std::exchange(d.to_server, {}), d.to_client) == handshake_state::done);
  const auto refusal =
      d.server.refuse("all 4 sessions are taken\x1b[2J\n" + std::string(5000, 'x'));
  d.to_client.insert(d.to_client.end(), refusal.begin(), refusal.end());
  CHECK(d.client.advance(d.to_client, d.to_server) == handshake_state::failed);
  CHECK(d.client.code() == error::refused);
  CHECK(d.client.reason().starts_with("all 4 sessions are taken?[2J?"));
  CHECK(d.client.reason().size() <= limits::refusal_bytes_max);
}

TEST_CASE("an environment above the limits is refused on both sides", "[handshake]") {
  hello h = new_session();
  h.environment.assign(limits::environment_variables_max + 1, {"CUDA_X", "1"});
  CHECK(dialogue("", "", h).client.code() == error::limit_exceeded);
  h.environment = {{"CUDA_X", std::string(limits::environment_value_bytes_max + 1, 'v')}};
  CHECK(dialogue("", "", h).client.code() == error::limit_exceeded);

  using namespace handshake_messages;
  const auto server_verdict = [](const hello_body& body) {
    bytes in, out;
    put(in, opening{magic, protocol_version, 0});
    put(in, client_proof{});
    bytes encoded(encoded_bytes(body));
    encoder e(encoded.data(), encoded.size());
    encode_into(body, e);
    put(in, block{verdict::accepted, static_cast<std::uint32_t>(encoded.size())});
    in.insert(in.end(), encoded.begin(), encoded.end());
    server_handshake server("");
    server.advance(in, out);
    return server.code();
  };
  hello_body body;
  body.role = 1;
  CHECK(server_verdict(body) == error::ok);
  body.environment.assign(limits::environment_variables_max + 1, {"CUDA_X", "1"});
  CHECK(server_verdict(body) == error::limit_exceeded);
  body.environment = {{"LD_PRELOAD=x", "1"}};
  CHECK(server_verdict(body) == error::limit_exceeded);
  body.environment.clear();
  body.role = 5;
  CHECK(server_verdict(body) == error::protocol_violation);
  body.role = 2;  // a side connection of no session
  CHECK(server_verdict(body) == error::protocol_violation);
  body.session_low = 1;
  CHECK(server_verdict(body) == error::ok);
}

TEST_CASE("an announced length above the limit is refused before anything arrives", "[handshake]") {
  using namespace handshake_messages;
  bytes in, out;
  put(in, opening{magic, protocol_version, 0});
  put(in, client_proof{});
  put(in, block{verdict::accepted, 0x7fffffff});
  server_handshake server("");
  CHECK(server.advance(in, out) == handshake_state::failed);
  CHECK(server.code() == error::limit_exceeded);
}

TEST_CASE("half a dialogue is never a whole one", "[handshake]") {
  dialogue good("", "");
  good.run();
  for (std::size_t n = 0; n < good.said_by_client.size(); ++n) {
    server_handshake server("");
    bytes out;
    const auto state = server.advance(std::span(good.said_by_client).first(n), out);
    CHECK(state == handshake_state::need_bytes);
    CHECK(server.wanted() > 0);
    CHECK(server.wanted() <= good.said_by_client.size() - n);
  }
  for (std::size_t n = 0; n < good.said_by_server.size(); ++n) {
    client_handshake client("", new_session());
    bytes out;
    client.advance({}, out);
    if (n == 0) continue;
    CHECK(client.advance(std::span(good.said_by_server).first(n), out) ==
          handshake_state::need_bytes);
    CHECK(client.wanted() > 0);
    CHECK(client.wanted() <= good.said_by_server.size() - n);
  }
}

TEST_CASE("a client that goes on before it is welcomed is refused", "[handshake]") {
  dialogue good("", "");
  good.run();
  auto more = good.said_by_client;
  more.resize(more.size() + 32);
  server_handshake server("");
  bytes out;
  CHECK(server.advance(more, out) == handshake_state::failed);
  CHECK(server.code() == error::protocol_violation);
}
