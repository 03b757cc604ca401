// SPDX-License-Identifier: Apache-2.0
// The main process's view of one worker: how it is started and what it is started with.
#pragma once

#include <string>

#include "daemon/environment.hpp"
#include "daemon/log.hpp"
#include "daemon/session_table.hpp"

namespace gpuwire::daemon {

struct worker_launch {
  std::string driver_path;
  std::string library_folder;
  log_level level = log_level::info;
};

// Starts a worker and hands it the command connection, of which the caller keeps its own
// descriptor. On failure the entry's worker is -1 and `problem` says why.
session_entry start_worker(const worker_launch& launch, std::uint32_t number,
                           const variable_list& client_environment, int command_fd,
                           std::string& problem);

// Arguments of the worker role, as start_worker writes and worker_main reads them.
struct worker_arguments {
  std::string driver_path;
  log_level level = log_level::info;
  std::string number;
};
std::vector<std::string> to_arguments(const worker_arguments& a);
bool from_arguments(int argc, const char* const* argv, worker_arguments& out);

}  // namespace gpuwire::daemon
