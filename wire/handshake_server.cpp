// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "wire/handshake.hpp"
#include "wire/handshake_messages.hpp"
#include "wire/limits.hpp"
#include "wire/proof.hpp"

namespace gpuwire::wire {

using namespace handshake_messages;

server_handshake::server_handshake(std::string token) : token_(std::move(token)) {}

handshake_state server_handshake::fail(error code, std::string reason) {
  code_ = code;
  reason_ = std::move(reason);
  step_ = step::over;
  pending_.clear();
  return handshake_state::failed;
}

std::size_t server_handshake::wanted() const {
  std::size_t whole = 0;
  switch (step_) {
    case step::opening:
      whole = sizeof(opening);
      break;
    case step::proof:
      whole = sizeof(client_proof);
      break;
    case step::hello:
      whole = sizeof(block);
      break;
    case step::over:
      return 0;
  }
  if (step_ == step::hello && pending_.size() >= sizeof(block)) {
    block b;
    std::memcpy(&b, pending_.data(), sizeof b);
    whole += b.bytes;
  }
  return whole - std::min(whole, pending_.size());
}

handshake_state server_handshake::advance(std::span<const std::byte> in,
                                          std::vector<std::byte>& out) {
  if (step_ == step::over) {
    if (code_ == error::ok && !in.empty())
      return fail(error::protocol_violation, "the client went on before it was welcomed");
    return code_ == error::ok ? handshake_state::done : handshake_state::failed;
  }
  pending_.insert(pending_.end(), in.begin(), in.end());
  bool moved = true;
  while (moved) {
    switch (step_) {
      case step::opening:
        moved = take_opening(out);
        break;
      case step::proof:
        moved = take_proof(out);
        break;
      case step::hello:
        moved = take_hello();
        break;
      case step::over:
        moved = false;
        break;
    }
  }
  if (step_ != step::over) return handshake_state::need_bytes;
  return code_ == error::ok ? handshake_state::done : handshake_state::failed;
}

bool server_handshake::take_opening(std::vector<std::byte>& out) {
  if (pending_.empty()) return false;
  if (!may_be_magic(pending_)) {
    fail(error::not_gpuwire, what_it_speaks(pending_));
    return false;
  }
  if (pending_.size() < magic.size() + sizeof(std::uint32_t)) return false;
  std::uint32_t version = 0;
  std::memcpy(&version, pending_.data() + magic.size(), sizeof version);
  greeting g{magic, protocol_version, 0, {}};
  if (version != protocol_version) {
    put(out, g);  // the client says both versions to its user
    fail(error::version_mismatch, "the client speaks protocol version " + std::to_string(version) +
                                      ", this server " + std::to_string(protocol_version));
    return false;
  }
  opening o;
  if (!take(pending_, o)) return false;
  if (!fill_random(server_nonce_)) {
    fail(error::system_failure, "the kernel gives no random bytes");
    return false;
  }
  g.flags = token_.empty() ? 0 : token_needed;
  g.nonce = server_nonce_;
  put(out, g);
  step_ = step::proof;
  return true;
}

bool server_handshake::take_proof(std::vector<std::byte>& out) {
  client_proof p;
  if (!take(pending_, p)) return false;
  client_nonce_ = p.nonce;
  server_proof answer;
  if (!token_.empty()) {
    const auto expected =
        make_proof(token_, prover::client, protocol_version, server_nonce_, client_nonce_);
    if (!expected || !same_proof(*expected, p.proof)) {
      const std::string_view text =
          "the server does not accept the token; give both sides the same one";
      put(out, server_proof{
                   verdict::authentication_failed, static_cast<std::uint32_t>(text.size()), {}});
      const auto bytes = std::as_bytes(std::span(text));
      out.insert(out.end(), bytes.begin(), bytes.end());
      fail(error::authentication_failed, "the client's token is wrong");
      return false;
    }
    const auto own =
        make_proof(token_, prover::server, protocol_version, server_nonce_, client_nonce_);
    if (own) answer.proof = *own;
  }
  put(out, answer);
  step_ = step::hello;
  return true;
}

bool server_handshake::take_hello() {
  if (pending_.size() < sizeof(block)) return false;
  block b;
  std::memcpy(&b, pending_.data(), sizeof b);
  if (b.bytes > limits::handshake_bytes_max) {
    fail(error::limit_exceeded, "the client's hello is too long");
    return false;
  }
  if (pending_.size() < sizeof b + b.bytes) return false;
  if (pending_.size() > sizeof b + b.bytes) {
    fail(error::protocol_violation, "the client went on before it was welcomed");
    return false;
  }
  hello_body body;
  decoder d(pending_.data() + sizeof b, b.bytes);
  if (!decode_from(d, body)) {
    fail(error::protocol_violation, "the client's hello is malformed");
    return false;
  }
  if (body.role < static_cast<std::uint8_t>(connection_role::command) ||
      body.role > static_cast<std::uint8_t>(connection_role::light)) {
    fail(error::protocol_violation, "the client asks for an unknown kind of connection");
    return false;
  }
  if (body.environment.size() > limits::environment_variables_max) {
    fail(error::limit_exceeded, "the client sent too many environment variables");
    return false;
  }
  for (const auto& [name, value] : body.environment) {
    const bool fits = !name.empty() && name.size() <= limits::environment_name_bytes_max &&
                      value.size() <= limits::environment_value_bytes_max;
    constexpr std::string_view forbidden("=\0", 2);
    if (!fits || name.find_first_of(forbidden) != name.npos || value.find('\0') != value.npos) {
      fail(error::limit_exceeded, "the client sent an environment variable that is not one");
      return false;
    }
    hello_.environment.emplace_back(name, value);
  }
  hello_.role = static_cast<connection_role>(body.role);
  std::memcpy(hello_.session.data(), &body.session_low, 8);
  std::memcpy(hello_.session.data() + 8, &body.session_high, 8);
  hello_.features = body.features;
  hello_.process_key = body.process_key;
  const bool names_session = hello_.session != session_id{};
  const bool opens = hello_.role == connection_role::command || hello_.role == connection_role::light;
  if (names_session == opens) {
    fail(error::protocol_violation, names_session
                                        ? "the client asks for a new session by an old one's name"
                                        : "the client names no session for its connection");
    return false;
  }
  pending_.clear();
  step_ = step::over;
  return false;
}

std::vector<std::byte> server_handshake::accept(const welcome& w) {
  welcome_body body;
  std::memcpy(&body.session_low, w.session.data(), 8);
  std::memcpy(&body.session_high, w.session.data() + 8, 8);
  body.features = w.features;
  std::vector<std::byte> out;
  const auto bytes = encoded_bytes(body);
  put(out, block{verdict::accepted, static_cast<std::uint32_t>(bytes)});
  out.resize(out.size() + bytes);
  encoder e(out.data() + sizeof(block), bytes);
  encode_into(body, e);
  return out;
}

std::vector<std::byte> server_handshake::refuse(const std::string& reason) {
  const auto text = printable(reason);
  std::vector<std::byte> out;
  put(out, block{verdict::refused, static_cast<std::uint32_t>(text.size())});
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

}  // namespace gpuwire::wire
