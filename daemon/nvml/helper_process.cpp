// SPDX-License-Identifier: Apache-2.0
#include "daemon/nvml/helper_process.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "daemon/control_channel.hpp"
#include "daemon/environment.hpp"
#include "daemon/log.hpp"
#include "daemon/spawn.hpp"

namespace gpuwire::daemon {

bool nvml_helper::tell(const nvml::notice& n, int fd) {
  return control_ && send_packet(control_.get(), std::as_bytes(std::span(&n, 1)), fd);
}

bool nvml_helper::ready(std::string& problem) {
  if (control_) return true;
  auto pair = make_control_pair();
  if (!pair) {
    problem = fmt::format("no channel to an NVML helper: {}", std::strerror(errno));
    return false;
  }
  process_ = spawn_self({"--nvml", launch_.library, log_level_name(launch_.level),
                         launch_.writes_allowed ? "write" : "read"},
                        worker_environment(own_environment(), {}, launch_.library_folder),
                        pair->second.get());
  if (process_ < 0) {
    problem = fmt::format("no process for NVML: {}", std::strerror(errno));
    return false;
  }
  children_[process_] = true;
  control_ = std::move(pair->first);
  log_info("NVML helper started", {{"process", std::to_string(process_)}});
  for (const auto& [worker, key] : sessions_)
    tell({nvml::notice_kind::session_began, static_cast<std::uint32_t>(worker), key});
  return true;
}

bool nvml_helper::hand_over(int fd, std::uint64_t process_key) {
  const nvml::notice n{nvml::notice_kind::connection, 0, process_key};
  if (tell(n, fd)) return true;
  if (control_ && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    log_warning("connection dropped: the NVML helper has too much to do");
    return false;
  }
  // It was about to end for want of work: the next one takes the connection.
  control_.reset();
  std::string problem;
  if (ready(problem) && tell(n, fd)) return true;
  log_warning("connection dropped: the NVML helper does not take it", {{"reason", problem}});
  return false;
}

void nvml_helper::session_began(pid_t worker, std::uint64_t process_key) {
  if (process_key == 0) return;
  sessions_[worker] = process_key;
  tell({nvml::notice_kind::session_began, static_cast<std::uint32_t>(worker), process_key});
}

void nvml_helper::session_ended(pid_t worker) {
  if (sessions_.erase(worker) != 0)
    tell({nvml::notice_kind::session_ended, static_cast<std::uint32_t>(worker), 0});
}

bool nvml_helper::child_ended(pid_t child, const std::string& how, bool clean) {
  if (children_.erase(child) == 0) return false;
  log(clean ? log_level::info : log_level::warning, "NVML helper ended",
      {{"process", std::to_string(child)}, {"reason", clean ? "idle" : how}});
  if (child == process_) {
    control_.reset();
    process_ = -1;
  }
  return true;
}

void nvml_helper::stop() {
  control_.reset();
}

}  // namespace gpuwire::daemon
