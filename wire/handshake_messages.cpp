// SPDX-License-Identifier: Apache-2.0
#include "wire/handshake_messages.hpp"

#include <algorithm>

#include "wire/limits.hpp"

namespace gpuwire::wire::handshake_messages {

bool may_be_magic(std::span<const std::byte> bytes) {
  const auto count = std::min(bytes.size(), magic.size());
  return std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count),
                    std::as_bytes(std::span(magic)).begin());
}

std::string what_it_speaks(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 64));
  const auto starts = [text](std::string_view word) { return text.starts_with(word); };
  for (const char* method : {"GET ", "POST ", "HEAD ", "PUT ", "OPTIONS ", "CONNECT ", "DELETE ",
                             "PATCH ", "PRI * HTTP", "HTTP/"}) {
    if (starts(method)) return "the peer speaks HTTP, not gpuwire";
  }
  if (text.size() >= 2 && (text[0] == '\x15' || text[0] == '\x16') && text[1] == '\x03')
    return "the peer speaks TLS, not plain gpuwire";
  if (starts("SSH-")) return "the peer speaks SSH, not gpuwire";
  if (std::all_of(text.begin(), text.end(), [](char c) { return c == '\0'; }))
    return "the peer sent zero bytes, not a gpuwire greeting";
  return "the peer does not speak gpuwire: its first bytes are no greeting";
}

std::string printable(std::string_view text) {
  std::string result(text.substr(0, limits::refusal_bytes_max));
  for (char& c : result) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return result;
}

}  // namespace gpuwire::wire::handshake_messages
