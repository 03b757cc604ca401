// SPDX-License-Identifier: Apache-2.0
#include "daemon/driver_probe.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "daemon/descriptor.hpp"
#include "daemon/driver_loader.hpp"
#include "daemon/environment.hpp"
#include "daemon/limits.hpp"
#include "daemon/log.hpp"
#include "daemon/spawn.hpp"

namespace gpuwire::daemon {
namespace {

// Answers of the child, by the first character of its text.
constexpr char usable = '+', unusable = '-';
constexpr char separator = '\n';

std::string read_until_end(int fd, std::chrono::milliseconds deadline) {
  std::string text;
  const auto end = std::chrono::steady_clock::now() + deadline;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd waiting{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0) return {};
    char part[4096];
    const auto bytes = ::read(fd, part, sizeof part);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return text;
    text.append(part, static_cast<std::size_t>(bytes));
  }
}

std::variant<usable_driver, std::string> ask_child(const std::string& library,
                                                   const std::vector<std::string>& environment) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return fmt::format("cannot try the driver: {}", std::strerror(errno));
  }
  descriptor ours(ends[0]), theirs(ends[1]);
  const auto child = spawn_self({"--probe", library}, environment, theirs.get());
  if (child < 0)
    return fmt::format("cannot start a process to try the driver: {}", std::strerror(errno));
  theirs.reset();
  const auto text = read_until_end(ours.get(), limits::probe_deadline);
  ::kill(child, SIGKILL);  // it has said all it has to say
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (text.empty()) {
    return fmt::format("trying the CUDA driver '{}' failed ({}); give another one with --driver",
                       library, describe_wait_status(status));
  }
  if (text[0] != usable) return text.substr(1);
  const auto end_of_path = text.find(separator);
  usable_driver driver;
  driver.path = text.substr(1, end_of_path - 1);
  driver.summary = end_of_path == std::string::npos ? std::string() : text.substr(end_of_path + 1);
  const auto slash = driver.path.rfind('/');
  if (slash != std::string::npos) driver.library_folder = driver.path.substr(0, slash);
  return driver;
}

}  // namespace

std::variant<usable_driver, std::string> probe_driver(const std::string& driver) {
  const auto own = own_environment();
  const auto clean = worker_environment(own, {}, "");
  if (driver == "soft") {
    auto answer = ask_child(soft_driver_path(), clean);
    if (auto* found = std::get_if<usable_driver>(&answer)) found->library_folder.clear();
    return answer;
  }
  // First without LD_LIBRARY_PATH: in the shell of a gpuwire user it leads to our own client
  // library.
  auto answer = ask_child(driver, clean);
  const char* search = std::getenv("LD_LIBRARY_PATH");
  if (std::holds_alternative<usable_driver>(answer) || search == nullptr || *search == 0 ||
      driver.find('/') != std::string::npos) {
    return answer;
  }
  return ask_child(driver, worker_environment(own, {}, search));
}

int run_probe(const std::string& library) {
  start_log(log_level::error, STDERR_FILENO, "probe");
  std::string text;
  auto answer = load_driver(library);
  if (const auto* problem = std::get_if<std::string>(&answer)) {
    text = unusable + *problem;
  } else {
    const auto& driver = *std::get<0>(answer);
    int version = 0, devices = 0;
    const auto init = driver.table.cuInit(0);
    if (driver.table.cuDriverGetVersion(&version) != CUDA_SUCCESS) version = 0;
    if (init == CUDA_SUCCESS && driver.table.cuDeviceGetCount(&devices) != CUDA_SUCCESS)
      devices = 0;
    text = fmt::format("{}{}{}version {}.{}, ", usable, driver.path, separator, version / 1000,
                       version % 1000 / 10);
    text += init == CUDA_SUCCESS ? fmt::format("{} device{}", devices, devices == 1 ? "" : "s")
                                 : fmt::format("cuInit returns {}: clients will see the same",
                                               static_cast<int>(init));
  }
  const char* at = text.data();
  for (auto left = text.size(); left > 0;) {
    const auto written = ::write(inherited_descriptor, at, left);
    if (written <= 0) return 1;
    at += written;
    left -= static_cast<std::size_t>(written);
  }
  return text[0] == usable ? 0 : 1;
}

}  // namespace gpuwire::daemon
