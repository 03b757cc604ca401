// SPDX-License-Identifier: Apache-2.0
#include "wire/endpoint.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace gpuwire::wire {
namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
  unsigned value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || problem != std::errc{} || end != text.data() + text.size()) return {};
  if (value < 1 || value > 65535) return {};
  return static_cast<std::uint16_t>(value);
}

bool is_v6(std::string_view text) {
  const std::string address(text.substr(0, text.find('%')));  // a zone may follow
  in6_addr ignored;
  return inet_pton(AF_INET6, address.c_str(), &ignored) == 1;
}

bool is_host(std::string_view text) {
  return !text.empty() && text.size() <= 255 && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 127 && c != '/' && c != '[' && c != ']' && c != '@' && c != ':';
  });
}

}  // namespace

std::optional<endpoint> parse_endpoint(std::string_view text) {
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == text.npos || !is_v6(text.substr(1, close - 1))) return {};
    endpoint result{std::string(text.substr(1, close - 1)), default_port};
    const auto rest = text.substr(close + 1);
    if (rest.empty()) return result;
    const auto port = rest.starts_with(':') ? parse_port(rest.substr(1)) : std::nullopt;
    if (!port) return {};
    result.port = *port;
    return result;
  }
  const auto colon = text.find(':');
  if (colon == text.npos) {
    if (!is_host(text)) return {};
    return endpoint{std::string(text), default_port};
  }
  if (text.find(':', colon + 1) != text.npos) {
    if (!is_v6(text)) return {};
    return endpoint{std::string(text), default_port};
  }
  const auto port = parse_port(text.substr(colon + 1));
  if (!port || !is_host(text.substr(0, colon))) return {};
  return endpoint{std::string(text.substr(0, colon)), *port};
}

std::string to_string(const endpoint& e) {
  const bool v6 = e.host.find(':') != e.host.npos;
  return (v6 ? "[" + e.host + "]" : e.host) + ":" + std::to_string(e.port);
}

}  // namespace gpuwire::wire
