// SPDX-License-Identifier: Apache-2.0
// The NVML helper as the main process sees it: started when the first client asks, told about
// sessions, and started again when it has ended, which it does by itself when nobody has asked for
// a while. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "daemon/descriptor.hpp"
#include "daemon/nvml/control.hpp"
#include "daemon/worker_process.hpp"

namespace gpuwire::daemon {

struct nvml_launch {
  std::string library;         // path or name for the loader
  std::string library_folder;  // LD_LIBRARY_PATH of the helper, where it needs one
  log_level level{};
  bool writes_allowed = false;
};

class nvml_helper {
 public:
  explicit nvml_helper(nvml_launch launch) : launch_(std::move(launch)) {}

  // Starts the helper if there is none; false with a reason if that fails.
  bool ready(std::string& problem);
  // Hands a client's connection over; false if no helper takes it.
  bool hand_over(int fd, std::uint64_t process_key);

  void session_began(pid_t worker, std::uint64_t process_key);
  void session_ended(pid_t worker);

  // True if the child was the helper.
  bool child_ended(pid_t child, const std::string& how, bool clean);
  void stop();  // closing its channel is enough

 private:
  bool tell(const nvml::notice& n, int fd = -1);

  nvml_launch launch_;
  pid_t process_ = -1;  // the newest; an older one may still serve its last clients
  descriptor control_;
  std::map<pid_t, std::uint64_t> sessions_;  // what a helper that starts later has to know
  std::map<pid_t, bool> children_;
};

}  // namespace gpuwire::daemon
