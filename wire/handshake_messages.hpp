// SPDX-License-Identifier: Apache-2.0
// The messages of the handshake as they lie on the wire, shared by its two deciders.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/codec.hpp"

namespace gpuwire::wire::handshake_messages {

inline constexpr std::array<char, 8> magic{'g', 'p', 'u', 'w', 'i', 'r', 'e', '\x1a'};

enum class verdict : std::uint32_t { accepted = 0, authentication_failed = 1, refused = 2 };
inline constexpr std::uint32_t token_needed = 1;

struct opening {  // client
  std::array<char, 8> magic{};
  std::uint32_t version = 0, reserved = 0;
};
struct greeting {  // server
  std::array<char, 8> magic{};
  std::uint32_t version = 0, flags = 0;
  std::array<std::uint8_t, 32> nonce{};
};
struct client_proof {
  std::array<std::uint8_t, 32> nonce{}, proof{};  // the proof is zero where no token is needed
};
struct server_proof {  // `bytes` of text follow
  verdict result{};
  std::uint32_t bytes = 0;
  std::array<std::uint8_t, 32> proof{};
};
struct block {  // `bytes` of body follow
  verdict result{};
  std::uint32_t bytes = 0;
};
static_assert(sizeof(opening) == 16 && sizeof(greeting) == 48 && sizeof(client_proof) == 64 &&
              sizeof(server_proof) == 40 && sizeof(block) == 8);

struct variable {
  std::string_view name, value;
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor& v) {
    v(self.name);
    v(self.value);
  }
};
struct hello_body {
  std::uint8_t role = 0;
  std::uint64_t session_low = 0, session_high = 0, features = 0, process_key = 0;
  nested_array<variable> environment;
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor& v) {
    v(self.role);
    v(self.session_low);
    v(self.session_high);
    v(self.features);
    v(self.process_key);
    v.nested_array(self.environment);
  }
};
struct welcome_body {
  std::uint64_t session_low = 0, session_high = 0, features = 0;
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor& v) {
    v(self.session_low);
    v(self.session_high);
    v(self.features);
  }
};

template <class Fixed>
void put(std::vector<std::byte>& out, const Fixed& message) {
  const auto bytes = std::as_bytes(std::span(&message, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}
// Takes a fixed message from the front; false if it is not there yet.
template <class Fixed>
bool take(std::vector<std::byte>& pending, Fixed& message) {
  if (pending.size() < sizeof message) return false;
  std::memcpy(&message, pending.data(), sizeof message);
  pending.erase(pending.begin(), pending.begin() + sizeof message);
  return true;
}

// Whether the bytes may be the beginning of the magic, and what they look like if they cannot.
bool may_be_magic(std::span<const std::byte> bytes);
std::string what_it_speaks(std::span<const std::byte> bytes);  // "the peer speaks HTTP, not gpuwire"

// Text of the peer, fit for a terminal: no control characters, bounded.
std::string printable(std::string_view text);

}  // namespace gpuwire::wire::handshake_messages
