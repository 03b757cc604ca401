// SPDX-License-Identifier: Apache-2.0
// Starts a thread of a worker: named, with all signals blocked, and in relaxed capture mode, because the daemon's own
// housekeeping must never be what makes an application's stream capture fail.
#pragma once

#include <functional>

namespace gpuwire::daemon {

struct worker;

// Ends the session when the system refuses a thread.
void start_thread(worker& w, const char* name, std::function<void()> body);

// For the thread that runs main.
void relax_capture_mode(worker& w);

}  // namespace gpuwire::daemon
