// SPDX-License-Identifier: Apache-2.0
#include "daemon/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

extern char** environ;

namespace gpuwire::daemon {
namespace {

constexpr std::array<std::string_view, 12> client_variables = {
    "CUDA_AUTO_BOOST",          "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",       "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DISABLE_JIT",         "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_JIT",           "CUDA_FORCE_PTX_JIT",
    "CUDA_LAUNCH_BLOCKING",     "CUDA_MODULE_LOADING",
    "CUDA_MODULE_DATA_LOADING", "CUDA_SCALE_LAUNCH_QUEUES",
};

// False dependencies between streams that share a hardware queue would let one client thread hold
// up another.
constexpr const char* connections_default = "CUDA_DEVICE_MAX_CONNECTIONS=32";

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

}  // namespace

bool client_may_set(std::string_view name) {
  return std::find(client_variables.begin(), client_variables.end(), name) !=
         client_variables.end();
}

std::vector<std::string> worker_environment(const std::vector<std::string>& own,
                                            const variable_list& client,
                                            const std::string& library_folder) {
  std::vector<std::string> result;
  for (const auto& entry : own) {
    const auto name = std::string_view(entry).substr(0, entry.find('='));
    if (starts_with(name, "LD_") || starts_with(name, "GPUWIRE_") || client_may_set(name)) continue;
    result.push_back(entry);
  }
  bool connections_given = false;
  for (const auto& [name, value] : client) {
    if (!client_may_set(name) || value.find('\0') != std::string::npos) continue;
    connections_given |= name == "CUDA_DEVICE_MAX_CONNECTIONS";
    result.push_back(name + "=" + value);
  }
  if (!connections_given) result.emplace_back(connections_default);
  if (!library_folder.empty()) result.push_back("LD_LIBRARY_PATH=" + library_folder);
  return result;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    result.emplace_back(*entry);
  return result;
}

}  // namespace gpuwire::daemon
