// SPDX-License-Identifier: Apache-2.0
#include "daemon/options.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "wire/limits.hpp"

#ifndef GPUWIRE_VERSION
#define GPUWIRE_VERSION "0.1.0"
#endif

namespace gpuwire::daemon {

bool is_loopback_name(const std::string& listen) {
  if (listen == "localhost" || listen == "::1") return true;
  in_addr v4{};
  return inet_pton(AF_INET, listen.c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

token_answer read_token_file(const std::string& path) {
  token_answer answer;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    answer.problem = fmt::format("cannot read the token file {}: {}", path, std::strerror(errno));
    return answer;
  }
  if (!S_ISREG(status.st_mode)) {
    answer.problem = fmt::format("the token file {} is not a regular file", path);
    return answer;
  }
  if ((status.st_mode & (S_IRGRP | S_IROTH)) != 0) {
    answer.warning = fmt::format(
        "the token file {} can be read by others; 'chmod 600 {}' closes it", path, path);
  }
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) text.assign(std::istreambuf_iterator<char>(file), {});
  if (!file) {
    answer.problem = fmt::format("cannot read the token file {}: {}", path, std::strerror(errno));
    return answer;
  }
  constexpr const char* space = " \t\r\n";
  const auto begin = text.find_first_not_of(space);
  if (begin == std::string::npos) {
    answer.problem = fmt::format(
        "the token file {} is empty; 'head -c 32 /dev/urandom | base64 > {}' makes a token", path,
        path);
    return answer;
  }
  text = text.substr(begin, text.find_last_not_of(space) - begin + 1);
  if (text.size() > wire::limits::token_bytes_max) {
    answer.problem =
        fmt::format("the token in {} is longer than {} bytes", path, wire::limits::token_bytes_max);
    return answer;
  }
  answer.token = std::move(text);
  return answer;
}

std::variant<options, early_exit> parse_options(int argc, const char* const* argv) {
  options o;
  std::string level = log_level_name(o.level);
  int port = o.port;
  CLI::App app{"gpuwired lends the GPUs of this machine to CUDA programs on other machines.",
               "gpuwired"};
  app.add_option("--driver", o.driver,
                 "CUDA driver: 'soft' for the software GPU, or a library name or path (default: "
                 "the system's libcuda.so.1)");
  app.add_option("--nvml-driver", o.nvml_driver,
                 "NVML library name or path (default: the system's libnvidia-ml.so.1, or the "
                 "software GPU's)");
  app.add_flag("--nvml-write", o.nvml_write,
               "let clients change the state of the GPUs through NVML: power limits, clocks, MIG");
  app.add_option("--listen", o.listen, "address to listen on (default 127.0.0.1)");
  app.add_option("--port", port, "TCP port, 0 lets the system choose (default 14840)");
  app.add_option("--token-file", o.token_file, "file with the secret that clients must know");
  app.add_flag("--insecure", o.insecure, "allow other machines to connect without a secret");
  app.add_option("--log-level", level, "error, warning, info or debug (default info)");
  app.add_option("--sessions-max", o.sessions_max, "client processes served at once (default 256)");
  app.set_version_flag("--version", "gpuwired " GPUWIRE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return early_exit{0, app.help()};
  } catch (const CLI::CallForVersion&) {
    return early_exit{0, "gpuwired " GPUWIRE_VERSION "\n"};
  } catch (const CLI::ParseError& e) {
    return early_exit{2,
                      fmt::format("gpuwired: {}; 'gpuwired --help' lists the options\n", e.what())};
  }
  const auto refuse = [](std::string text) {
    return early_exit{2, "gpuwired: " + std::move(text) + "\n"};
  };

  if (port < 0 || port > 65535)
    return refuse(fmt::format("--port {} is not between 0 and 65535", port));
  o.port = static_cast<std::uint16_t>(port);
  const auto parsed = parse_log_level(level);
  if (!parsed)
    return refuse(
        fmt::format("--log-level '{}' is unknown; use error, warning, info or debug", level));
  o.level = *parsed;
  if (o.sessions_max == 0) return refuse("--sessions-max 0 would serve nobody");
  if (o.driver.empty())
    return refuse("--driver is empty; use 'soft' or the path of a libcuda.so.1");
  if (!o.token_file.empty()) {
    auto answer = read_token_file(o.token_file);
    if (!answer.problem.empty()) return refuse(answer.problem);
    if (!answer.warning.empty()) o.warnings.push_back(answer.warning);
    o.token = std::move(answer.token);
  }
  if (o.token.empty() && !is_loopback_name(o.listen)) {
    if (!o.insecure) {
      return refuse(
          fmt::format("--listen {} is open to other machines and no secret is set: give "
                      "--token-file FILE, or --insecure if everybody "
                      "who can reach this port may use the GPUs",
                      o.listen));
    }
    o.warnings.push_back(fmt::format(
        "listening on {} without a secret: everybody who can reach it may use the GPUs", o.listen));
  }
  return o;
}

}  // namespace gpuwire::daemon
