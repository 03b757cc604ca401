// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker_process.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <cstring>

#include "daemon/control_channel.hpp"
#include "daemon/spawn.hpp"

namespace gpuwire::daemon {

std::vector<std::string> to_arguments(const worker_arguments& a) {
  return {"--worker", a.driver_path, log_level_name(a.level), a.number};
}

bool from_arguments(int argc, const char* const* argv, worker_arguments& out) {
  if (argc != 5) return false;
  const auto level = parse_log_level(argv[3]);
  if (!level) return false;
  out = {argv[2], *level, argv[4]};
  return true;
}

session_entry start_worker(const worker_launch& launch, std::uint32_t number,
                           const variable_list& client_environment, int command_fd,
                           std::string& problem) {
  session_entry entry;
  entry.number = number;
  auto pair = make_control_pair();
  if (!pair) {
    problem = fmt::format("no control channel: {}", std::strerror(errno));
    return entry;
  }
  const auto environment =
      worker_environment(own_environment(), client_environment, launch.library_folder);
  const auto worker =
      spawn_self(to_arguments({launch.driver_path, launch.level, fmt::format("{}", number)}),
                 environment, pair->second.get());
  if (worker < 0) {
    problem = fmt::format("no process for the session: {}", std::strerror(errno));
    return entry;
  }
  if (!send_control(pair->first.get(), {control_kind::attach, wire::connection_role::command},
                    command_fd)) {
    problem = fmt::format("cannot hand the connection over: {}", std::strerror(errno));
    ::kill(worker, SIGKILL);  // reaped with all other children
    return entry;
  }
  entry.worker = worker;
  entry.control = std::move(pair->first);
  entry.started = std::chrono::steady_clock::now();
  return entry;
}

}  // namespace gpuwire::daemon
