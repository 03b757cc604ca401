// SPDX-License-Identifier: Apache-2.0
// The worker role of this program: one process, one session, then it ends.
#pragma once

namespace gpuwire::daemon {

// argv as to_arguments() wrote it, the control channel on descriptor 3. Returns only when it cannot
// start.
int run_worker(int argc, const char* const* argv);

}  // namespace gpuwire::daemon
