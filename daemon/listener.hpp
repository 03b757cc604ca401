// SPDX-License-Identifier: Apache-2.0
// The main process's one thread: accepts connections, runs the handshake on each, hands
// authenticated ones to the worker of their session, notices the end of workers and of itself. The
// only daemon file that includes Asio is its source.
#pragma once

#include "daemon/nvml/helper_process.hpp"
#include "daemon/options.hpp"
#include "daemon/worker_process.hpp"

namespace gpuwire::daemon {

// Serves until SIGTERM or SIGINT; returns the exit code. Prints "listening on ADDRESS:PORT" on
// stdout once it does.
int serve(const options& o, const worker_launch& launch, const nvml_launch& nvml);

}  // namespace gpuwire::daemon
