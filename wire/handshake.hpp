// SPDX-License-Identifier: Apache-2.0
// The handshake as two deciders without I/O: bytes that arrived go in, bytes to send and a verdict come out. Sockets are
// somebody else's business (wire/net on the client, gpuwired on the server). The messages are described in README.md.
//
// Order: client {magic, version}; server {magic, version, needs-token flag, 32 random bytes}; client {32 random bytes,
// HMAC-SHA256 proof}; server {verdict, proof of its own}; client {role, session, features, environment}; server {verdict,
// session, features} or {verdict, reason}. Nothing but magic and version is said before the other side has proved that it
// knows the token (when there is one). No reason or message ever holds the token.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "wire/error.hpp"
#include "wire/server.hpp"

namespace gpuwire::wire {

using session_id = std::array<std::uint8_t, 16>;  // random, unguessable: it is what a second connection shows

struct hello {  // what the client says of itself
  connection_role role = connection_role::command;
  session_id session{};        // all zero for role command: a new session
  std::uint64_t features = 0;
  std::uint64_t process_key = 0;
  std::vector<std::pair<std::string, std::string>> environment;  // bounded: limits.hpp
};

struct welcome {  // what the server answers
  session_id session{};
  std::uint64_t features = 0;
};

inline constexpr std::uint32_t protocol_version = 1;

enum class handshake_state { need_bytes, done, failed };

class client_handshake {
 public:
  client_handshake(std::string token, hello h);
  // Feeds received bytes; call once with none to start. Appends what must be sent to `out`, also when it fails.
  handshake_state advance(std::span<const std::byte> in, std::vector<std::byte>& out);
  // How many bytes to receive next at most, so that nothing behind the handshake is taken from the socket.
  std::size_t wanted() const;
  const welcome& result() const { return welcome_; }
  error code() const { return code_; }             // version_mismatch, not_gpuwire, authentication_failed, refused ...
  const std::string& reason() const { return reason_; }

 private:
  enum class step { start, greeting, proof, verdict, over };
  handshake_state fail(error code, std::string reason);
  bool take_greeting(std::vector<std::byte>& out);
  bool take_proof(std::vector<std::byte>& out);
  bool take_verdict();
  bool send_hello(std::vector<std::byte>& out);

  std::string token_, reason_;
  hello hello_;
  welcome welcome_;
  error code_{};
  step step_ = step::start;
  std::vector<std::byte> pending_;
  std::array<std::uint8_t, 32> client_nonce_{}, server_nonce_{};
};

class server_handshake {
 public:
  explicit server_handshake(std::string token);  // empty token: nobody is asked for one
  // What it appended to `out` must be sent even when it failed: the reason for the client may be in it.
  handshake_state advance(std::span<const std::byte> in, std::vector<std::byte>& out);
  std::size_t wanted() const;  // as above; 0 when done or failed
  const hello& request() const { return hello_; }  // valid when the state is done: then answer with accept() or refuse()
  std::vector<std::byte> accept(const welcome& w);
  std::vector<std::byte> refuse(const std::string& reason);
  error code() const { return code_; }
  const std::string& reason() const { return reason_; }  // for the log; never holds the token
  bool wants_proof() const { return step_ == step::proof && !token_.empty(); }  // the token was asked for

 private:
  enum class step { opening, proof, hello, over };
  handshake_state fail(error code, std::string reason);
  bool take_opening(std::vector<std::byte>& out);
  bool take_proof(std::vector<std::byte>& out);
  bool take_hello();

  std::string token_, reason_;
  hello hello_;
  error code_{};
  step step_ = step::opening;
  std::vector<std::byte> pending_;
  std::array<std::uint8_t, 32> client_nonce_{}, server_nonce_{};
};

}  // namespace gpuwire::wire
