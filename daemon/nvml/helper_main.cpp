// SPDX-License-Identifier: Apache-2.0
#include "daemon/nvml/helper_main.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "daemon/control_channel.hpp"
#include "daemon/limits.hpp"
#include "daemon/log.hpp"
#include "daemon/nvml/answer.hpp"
#include "daemon/nvml/control.hpp"
#include "daemon/nvml/serve.hpp"
#include "daemon/spawn.hpp"
#include "wire/light_server.hpp"

namespace gpuwire::daemon {
namespace {

using nvml::notice_kind;

std::atomic<std::size_t> connections{0};

// Leaked: a connection's thread may outlive everything else.
nvml::host& the_host() {
  static auto* h = new nvml::host;
  return *h;
}

void serve_connection(descriptor fd, std::uint64_t process_key) {
  nvml::client_of_helper client{the_host(), process_key};
  std::string why;
  try {
    why = wire::serve_light(fd.get(), [&](const wire::light_question& q, wire::light_answer& a) {
      return nvml::answer_question(client, q, a);
    });
  } catch (const std::exception& problem) {
    why = problem.what();
  }
  nvml::release(client);
  log_debug("NVML client gone", {{"reason", why}});
  connections.fetch_sub(1);
}

void begin_connection(descriptor fd, std::uint64_t process_key) {
  if (connections.load() >= limits::nvml_connections_max) {
    log_warning("NVML connection dropped: too many at once");
    return;
  }
  connections.fetch_add(1);
  try {
    std::thread(serve_connection, std::move(fd), process_key).detach();
  } catch (const std::system_error& problem) {
    connections.fetch_sub(1);
    log_warning("NVML connection dropped", {{"reason", problem.what()}});
  }
}

// One notice, if there is one. Any thread: who asks about sessions takes what is there.
control_state take_notice(int channel) {
  nvml::notice n;
  descriptor fd;
  const auto state = receive_packet(channel, std::as_writable_bytes(std::span(&n, 1)), fd);
  if (state != control_state::message) return state;
  if (n.kind == notice_kind::connection && fd) begin_connection(std::move(fd), n.process_key);
  if (n.kind == notice_kind::session_began) the_host().sessions.begin(n.worker, n.process_key);
  if (n.kind == notice_kind::session_ended) the_host().sessions.end(n.worker);
  return state;
}

// Until the main process closes its end, or nobody has been here for a while. What is on its way
// when the helper decides to end is still taken: from the shutdown on the main process cannot send,
// and starts another.
void run(int channel) {
  auto idle_since = std::chrono::steady_clock::now();
  for (;;) {
    pollfd waiting{channel, POLLIN, 0};
    const auto wake = std::chrono::duration_cast<std::chrono::milliseconds>(limits::nvml_idle);
    const int ready = ::poll(&waiting, 1, static_cast<int>(wake.count()));
    if (ready > 0) {
      if (take_notice(channel) == control_state::closed) return;
      idle_since = std::chrono::steady_clock::now();
      continue;
    }
    if (connections.load() != 0) {
      idle_since = std::chrono::steady_clock::now();
    } else if (std::chrono::steady_clock::now() - idle_since >= limits::nvml_idle) {
      ::shutdown(channel, SHUT_RD);
      while (take_notice(channel) == control_state::message) {
      }
      while (connections.load() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return;
    }
  }
}

}  // namespace

int run_nvml_helper(int argc, const char* const* argv) {
  if (argc != 5) return 2;
  const auto level = parse_log_level(argv[3]);
  if (!level) return 2;
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);  // the main process decides
  ::fcntl(inherited_descriptor, F_SETFD, FD_CLOEXEC);
  start_log(*level, STDERR_FILENO, "nvml");
  auto& host = the_host();
  host.writes_allowed = std::strcmp(argv[4], "write") == 0;
  host.refresh = [] {
    while (take_notice(inherited_descriptor) == control_state::message) {
    }
  };
  std::string problem;
  host.open(argv[2], problem);
  if (!problem.empty()) log_warning("NVML is not available", {{"reason", problem}});
  run(inherited_descriptor);
  ::_exit(0);  // threads of the library and of connections are not waited for
}

}  // namespace gpuwire::daemon
