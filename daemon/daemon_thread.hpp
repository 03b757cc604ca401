// SPDX-License-Identifier: Apache-2.0
// Starts a thread of a worker: named, detached, with all signals blocked.
#pragma once

#include <functional>

namespace gpuwire::daemon {

struct worker;

// Ends the session when the system refuses a thread.
void start_thread(worker& w, const char* name, std::function<void()> body);

}  // namespace gpuwire::daemon
