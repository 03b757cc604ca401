// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker_main.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "daemon/control_channel.hpp"
#include "daemon/daemon_thread.hpp"
#include "daemon/executor.hpp"
#include "daemon/log.hpp"
#include "daemon/notices.hpp"
#include "daemon/spawn.hpp"
#include "daemon/watchdog.hpp"
#include "daemon/worker.hpp"
#include "daemon/worker_process.hpp"

namespace gpuwire::daemon {
namespace {

// The first message of the main process: the command connection.
descriptor receive_command_connection(int control) {
  for (;;) {
    received_control received;
    switch (receive_control(control, received)) {
      case control_state::closed:
        return {};
      case control_state::would_block: {
        pollfd waiting{control, POLLIN, 0};
        ::poll(&waiting, 1, -1);
        break;
      }
      case control_state::message:
        if (received.message.kind != control_kind::attach) return {};
        return std::move(received.connection);
    }
  }
}

}  // namespace

int run_worker(int argc, const char* const* argv) {
  worker_arguments arguments;
  if (!from_arguments(argc, argv, arguments)) return 2;
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGINT,
           SIG_IGN);  // ^C in the daemon's terminal reaches us too; the main process decides
  descriptor control(inherited_descriptor);
  ::fcntl(control.get(), F_SETFD, FD_CLOEXEC);

  output_capture output;
  const int log_descriptor = output.start();
  if (log_descriptor < 0) return 3;
  start_log(arguments.level, log_descriptor, "worker " + arguments.number);
  auto command = receive_command_connection(control.get());
  if (!command) return 0;
  auto driver = load_driver(arguments.driver_path);
  if (const auto* problem = std::get_if<std::string>(&driver)) {
    log_error(*problem);
    return 4;
  }

  // Never destroyed: threads that the end of the process overtakes must not find it gone.
  auto& w = *new worker(std::move(std::get<0>(driver)));
  w.output.adopt(std::move(output));
  auto& dog = *new watchdog(
      std::move(control), [&w](wire::connection_role role, int fd) { w.session->attach(role, fd); },
      [&w](const std::string& reason) { w.end(0, reason); },
      [&w](descriptor channel) { w.tickets.open(std::move(channel)); });
  dog.watch(command.get());
  wire::server_session::options session_options;
  session_options.on_notice = [&w](std::uint16_t call, std::uint32_t lane, wire::decoder& body) {
    return handle_notice(w, call, lane, body);
  };
  w.session = wire::server_session::create(command.release(), std::move(session_options));
  w.credits.start();
  start_thread(w, "gpuwire-watch", [&dog] { dog.run(); });
  executor(w).run();
}

}  // namespace gpuwire::daemon
