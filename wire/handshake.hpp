// SPDX-License-Identifier: Apache-2.0
// The handshake as two deciders without I/O: bytes that arrived go in, bytes to send and a verdict come out. Sockets are
// somebody else's business (wire/net on the client, gpuwired on the server).
//
// Order: client {magic, version}; server {magic, version, needs-token flag, 32 random bytes}; client {32 random bytes, HMAC-SHA256 proof,
// role, session id or none, features, environment}; server {proof of its own, verdict, session id, features} or {verdict, reason text}.
// Nothing but magic and version is said before the other side has proved that it knows the token (when there is one).
#pragma once

#include <array>
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

enum class handshake_state { need_bytes, done, failed };

class client_handshake {
 public:
  client_handshake(std::string token, hello h);
  // Feeds received bytes; call once with none to start. Appends what must be sent to `out`.
  handshake_state advance(std::span<const std::byte> in, std::vector<std::byte>& out);
  const welcome& result() const { return welcome_; }
  error code() const { return code_; }             // version_mismatch, not_gpuwire, authentication_failed, refused ...
  const std::string& reason() const { return reason_; }

 private:
  std::string token_, reason_;
  hello hello_;
  welcome welcome_;
  error code_{};
  int step_ = 0;
  std::vector<std::byte> pending_;
  std::array<std::uint8_t, 32> client_nonce_{}, server_nonce_{};
};

class server_handshake {
 public:
  explicit server_handshake(std::string token);  // empty token: nobody is asked for one
  handshake_state advance(std::span<const std::byte> in, std::vector<std::byte>& out);
  const hello& request() const { return hello_; }  // valid when the state is done: then answer with accept() or refuse()
  std::vector<std::byte> accept(const welcome& w);
  std::vector<std::byte> refuse(const std::string& reason);
  error code() const { return code_; }
  const std::string& reason() const { return reason_; }  // for the log; never holds the token

 private:
  std::string token_, reason_;
  hello hello_;
  error code_{};
  int step_ = 0;
  std::vector<std::byte> pending_;
  std::array<std::uint8_t, 32> client_nonce_{}, server_nonce_{};
};

}  // namespace gpuwire::wire
