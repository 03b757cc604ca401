// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "wire/handshake.hpp"
#include "wire/handshake_messages.hpp"
#include "wire/limits.hpp"
#include "wire/proof.hpp"

namespace gpuwire::wire {

using namespace handshake_messages;

client_handshake::client_handshake(std::string token, hello h)
    : token_(std::move(token)), hello_(std::move(h)) {}

handshake_state client_handshake::fail(error code, std::string reason) {
  code_ = code;
  reason_ = std::move(reason);
  step_ = step::over;
  pending_.clear();
  return handshake_state::failed;
}

std::size_t client_handshake::wanted() const {
  std::size_t whole = 0;
  switch (step_) {
    case step::start:
    case step::over:
      return 0;
    case step::greeting:
      whole = sizeof(greeting);
      break;
    case step::proof:
      whole = sizeof(server_proof);
      break;
    case step::verdict:
      whole = sizeof(block);
      break;
  }
  if (pending_.size() >=
      whole) {  // the fixed part is there: its second word is the length of the rest
    std::uint32_t rest = 0;
    std::memcpy(&rest, pending_.data() + 4, sizeof rest);
    whole += rest;
  }
  return whole - std::min(whole, pending_.size());
}

handshake_state client_handshake::advance(std::span<const std::byte> in,
                                          std::vector<std::byte>& out) {
  pending_.insert(pending_.end(), in.begin(), in.end());
  if (step_ == step::start) {
    if (hello_.environment.size() > limits::environment_variables_max)
      return fail(error::limit_exceeded, "too many CUDA_* variables in the environment");
    for (const auto& [name, value] : hello_.environment) {
      if (name.empty() || name.size() > limits::environment_name_bytes_max ||
          value.size() > limits::environment_value_bytes_max)
        return fail(error::limit_exceeded,
                    "the environment variable " + printable(name.substr(0, 64)) + " is too long");
    }
    put(out, opening{magic, protocol_version, 0});
    step_ = step::greeting;
  }
  bool moved = true;
  while (moved) {
    switch (step_) {
      case step::greeting:
        moved = take_greeting(out);
        break;
      case step::proof:
        moved = take_proof(out);
        break;
      case step::verdict:
        moved = take_verdict();
        break;
      case step::start:
      case step::over:
        moved = false;
        break;
    }
  }
  if (step_ != step::over) return handshake_state::need_bytes;
  return code_ == error::ok ? handshake_state::done : handshake_state::failed;
}

bool client_handshake::take_greeting(std::vector<std::byte>& out) {
  if (!may_be_magic(pending_)) {
    fail(error::not_gpuwire, what_it_speaks(pending_));
    return false;
  }
  // The version decides before the rest is waited for: another one may have another greeting.
  if (std::uint32_t version; pending_.size() >= magic.size() + sizeof version) {
    std::memcpy(&version, pending_.data() + magic.size(), sizeof version);
    if (version != protocol_version) {
      fail(error::version_mismatch, "the server speaks protocol version " +
                                        std::to_string(version) + ", this client " +
                                        std::to_string(protocol_version) +
                                        "; install the same gpuwire release on both sides");
      return false;
    }
  }
  greeting g;
  if (!take(pending_, g)) return false;
  const bool needed = g.flags & token_needed;
  if (needed && token_.empty()) {
    fail(error::authentication_failed,
         "the server asks for a token and none was given; give this side the server's token");
    return false;
  }
  // Going on without proof would let anybody who can answer on that address pretend to be the
  // server.
  if (!needed && !token_.empty()) {
    fail(error::authentication_failed,
         "a token was given but the server does not ask for one; start the server with the token, "
         "or give none");
    return false;
  }
  server_nonce_ = g.nonce;
  if (!fill_random(client_nonce_)) {
    fail(error::system_failure, "the kernel gives no random bytes");
    return false;
  }
  client_proof p{client_nonce_, {}};
  if (needed) {
    const auto own =
        make_proof(token_, prover::client, protocol_version, server_nonce_, client_nonce_);
    if (!own) {
      fail(error::system_failure, "the cryptographic library has no SHA-256");
      return false;
    }
    p.proof = *own;
  }
  put(out, p);
  step_ = step::proof;
  // Without a token there is nothing to wait for.
  return needed || send_hello(out);
}

bool client_handshake::take_proof(std::vector<std::byte>& out) {
  if (pending_.size() < sizeof(server_proof)) return false;
  server_proof p;
  std::memcpy(&p, pending_.data(), sizeof p);
  if (p.bytes > limits::refusal_bytes_max) {
    fail(error::protocol_violation, "the server's answer to the proof is too long");
    return false;
  }
  if (pending_.size() < sizeof p + p.bytes) return false;
  if (p.result != verdict::accepted) {
    const std::string_view text(reinterpret_cast<const char*>(pending_.data()) + sizeof p, p.bytes);
    fail(error::authentication_failed,
         text.empty() ? "the server does not accept the token" : printable(text));
    return false;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<long>(sizeof p + p.bytes));
  if (!token_.empty()) {
    const auto expected =
        make_proof(token_, prover::server, protocol_version, server_nonce_, client_nonce_);
    if (!expected || !same_proof(*expected, p.proof)) {
      fail(error::authentication_failed,
           "the server could not prove that it knows the token; it may be an impostor");
      return false;
    }
    return send_hello(out);
  }
  step_ = step::verdict;
  return true;
}

bool client_handshake::send_hello(std::vector<std::byte>& out) {
  hello_body body;
  body.role = static_cast<std::uint8_t>(hello_.role);
  std::memcpy(&body.session_low, hello_.session.data(), 8);
  std::memcpy(&body.session_high, hello_.session.data() + 8, 8);
  body.features = hello_.features;
  body.process_key = hello_.process_key;
  for (const auto& [name, value] : hello_.environment) body.environment.push_back({name, value});
  std::vector<std::byte> bytes(encoded_bytes(body));
  if (bytes.size() > limits::handshake_bytes_max) {
    fail(error::limit_exceeded, "the CUDA_* variables in the environment are too long in all");
    return false;
  }
  encoder e(bytes.data(), bytes.size());
  encode_into(body, e);
  put(out, block{verdict::accepted, static_cast<std::uint32_t>(bytes.size())});
  out.insert(out.end(), bytes.begin(), bytes.end());
  if (!token_.empty()) step_ = step::verdict;
  return true;
}

bool client_handshake::take_verdict() {
  if (pending_.size() < sizeof(block)) return false;
  block b;
  std::memcpy(&b, pending_.data(), sizeof b);
  if (b.bytes > limits::refusal_bytes_max) {
    fail(error::protocol_violation, "the server's verdict is too long");
    return false;
  }
  if (pending_.size() < sizeof b + b.bytes) return false;
  const auto* body = pending_.data() + sizeof b;
  if (b.result != verdict::accepted) {
    const std::string_view text(reinterpret_cast<const char*>(body), b.bytes);
    fail(error::refused, text.empty() ? "the server refused without a reason" : printable(text));
    return false;
  }
  welcome_body w;
  decoder d(body, b.bytes);
  if (!decode_from(d, w)) {
    fail(error::protocol_violation, "the server's welcome is malformed");
    return false;
  }
  if (pending_.size() != sizeof b + b.bytes) {
    fail(error::protocol_violation, "bytes behind the handshake were fed to it");
    return false;
  }
  std::memcpy(welcome_.session.data(), &w.session_low, 8);
  std::memcpy(welcome_.session.data() + 8, &w.session_high, 8);
  welcome_.features = w.features;
  pending_.clear();
  step_ = step::over;
  return false;
}

}  // namespace gpuwire::wire
