// SPDX-License-Identifier: Apache-2.0
// Where a server listens: "host", "host:port", "[v6 address]:port" or a bare v6 address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuwire::wire {

inline constexpr std::uint16_t default_port = 14840;

struct endpoint {
  std::string host = "127.0.0.1";
  std::uint16_t port = default_port;
};

std::optional<endpoint> parse_endpoint(std::string_view text);  // nothing: malformed, or a port out of 1..65535
std::string to_string(const endpoint& e);                       // v6 addresses in brackets

}  // namespace gpuwire::wire
