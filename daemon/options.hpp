// SPDX-License-Identifier: Apache-2.0
// The command line of gpuwired. Parsing has no side effects beyond reading the token file, so that
// every refusal is testable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "daemon/limits.hpp"
#include "daemon/log.hpp"
#include "wire/endpoint.hpp"

namespace gpuwire::daemon {

struct options {
  std::string driver = "libcuda.so.1";  // a name for the loader, a path, or "soft"
  std::string listen = "127.0.0.1";
  std::uint16_t port = wire::default_port;  // 0: the system chooses, the line on stdout tells
  std::string token_file;
  std::string token;  // from the file; empty: nobody is asked for one
  bool insecure = false;
  log_level level = log_level::info;
  std::string nvml_driver;  // as driver, for NVML; empty: the one that belongs to the driver
  bool nvml_write = false;  // clients may change the state of the GPUs
  std::size_t sessions_max = limits::sessions_default_max;
  std::vector<std::string> warnings;  // said once the log is there
};

// The program is to end now: text for stdout (code 0) or stderr.
struct early_exit {
  int code = 0;
  std::string text;
};

std::variant<options, early_exit> parse_options(int argc, const char* const* argv);

// Reads the token: the file's content without white space at its ends. On failure `problem` says
// what and how to repair it.
struct token_answer {
  std::string token;
  std::string problem;
  std::string warning;
};
token_answer read_token_file(const std::string& path);

bool is_loopback_name(const std::string& listen);

}  // namespace gpuwire::daemon
