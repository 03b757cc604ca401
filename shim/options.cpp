// SPDX-License-Identifier: Apache-2.0
#include "shim/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "wire/limits.hpp"
#include "wire/thread.hpp"

namespace gpuwire::shim {
namespace {

// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are not here: the shim applies them to the server's
// device list itself.
constexpr std::array forwarded_variables = {
    "CUDA_AUTO_BOOST",
    "CUDA_BINARY_LOADER_THREAD_COUNT",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DISABLE_JIT",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_JIT",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_MODULE_DATA_LOADING",
    "CUDA_MODULE_LOADING",
    "CUDA_SCALE_LAUNCH_QUEUES",
    "CUDA_GRAPHS_USE_NODE_PRIORITY",
};

bool is_one(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && std::strcmp(value, "1") == 0;
}

bool read_token(connection_options& options) {
  if (const char* token = std::getenv("GPUWIRE_TOKEN"); token != nullptr && *token != 0)
    options.token = token;
  const char* path = std::getenv("GPUWIRE_TOKEN_FILE");
  if (path == nullptr || *path == 0) return true;
  std::ifstream file(path, std::ios::binary);
  std::string token{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' '))
    token.pop_back();
  if (!file.good() && !file.eof()) {
    options.problem = fmt::format(
        "GPUWIRE_TOKEN_FILE names '{}', which cannot be read; give a readable file", path);
    return false;
  }
  if (token.empty()) {
    options.problem = fmt::format(
        "GPUWIRE_TOKEN_FILE names '{}', which holds no token; copy the server's token file", path);
    return false;
  }
  options.token = std::move(token);
  return true;
}

// A whole number within bounds, if the variable is set.
bool read_number(const char* name, long least, long most, const char* what, long& value,
                 std::string& problem) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == 0) return true;
  const auto* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, value);
  if (parsed.ec == std::errc() && parsed.ptr == end && value >= least && value <= most) return true;
  problem = fmt::format("{} is '{}'; it takes {} from {} to {}", name, text, what, least, most);
  return false;
}

bool read_timeout(connection_options& options) {
  long value = options.connect_timeout.count();
  if (!read_number("GPUWIRE_CONNECT_TIMEOUT_MS", 1, 3'600'000, "milliseconds", value,
                   options.problem))
    return false;
  options.connect_timeout = std::chrono::milliseconds(value);
  return true;
}

// One connection costs each end a thread that copies from or to its socket.
bool read_bulk_connections(connection_options& options) {
  constexpr long most = wire::limits::bulk_connections_max;
  long value = std::clamp<long>(wire::usable_cores() / 2, 1, most);
  if (!read_number("GPUWIRE_BULK_CONNECTIONS", 1, most, "a number of connections", value,
                   options.problem))
    return false;
  options.bulk_connections = static_cast<std::uint32_t>(value);
  return true;
}

}  // namespace

connection_options read_connection_options() {
  connection_options options;
  if (const char* server = std::getenv("GPUWIRE_SERVER"); server != nullptr && *server != 0) {
    const auto parsed = wire::parse_endpoint(server);
    if (!parsed) {
      options.problem = fmt::format(
          "GPUWIRE_SERVER is '{}'; it takes host, host:port or [v6 address]:port", server);
      return options;
    }
    options.server = *parsed;
  }
  if (!read_token(options) || !read_timeout(options) || !read_bulk_connections(options))
    return options;
  for (const char* name : forwarded_variables)
    if (const char* value = std::getenv(name)) options.environment.emplace_back(name, value);
  return options;
}

bool synchronous_wanted() {
  static const bool wanted = is_one("GPUWIRE_SYNC") || is_one("CUDA_LAUNCH_BLOCKING");
  return wanted;
}

bool statistics_wanted() {
  static const bool wanted = is_one("GPUWIRE_STATS");
  return wanted;
}

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

}  // namespace gpuwire::shim
