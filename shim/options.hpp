// SPDX-License-Identifier: Apache-2.0
// What the environment says. Read when it is first needed, never while the library is being loaded.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wire/endpoint.hpp"

namespace gpuwire::shim {

struct connection_options {
  wire::endpoint server;
  std::string token;
  std::chrono::milliseconds connect_timeout{10'000};
  std::uint32_t bulk_connections = 1;
  std::vector<std::pair<std::string, std::string>>
      environment;      // CUDA_* variables that the server's driver should see
  std::string problem;  // not empty: a variable is wrong; names it and says what is legal
};

connection_options read_connection_options();

// GPUWIRE_SYNC=1 or CUDA_LAUNCH_BLOCKING=1: every posted command waits for the driver's answer.
bool synchronous_wanted();
// GPUWIRE_STATS=1: counts are printed when the process ends.
bool statistics_wanted();

std::optional<std::string> environment_variable(const char* name);

}  // namespace gpuwire::shim
