// SPDX-License-Identifier: Apache-2.0
// Starts this same program again in another role. posix_spawn: the main process never runs its own
// code between fork and exec.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace gpuwire::daemon {

// Where a role finds the descriptor it was started with.
inline constexpr int inherited_descriptor = 3;

// The child has `inherited` as descriptor 3 and the standard descriptors, nothing else (all ours
// are close-on-exec). Returns its process id, or -1 with errno.
pid_t spawn_self(const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment, int inherited);

// The folder of this program's file; empty if it cannot be told.
std::string own_folder();

// "exit code 3", "signal 9 (Killed)".
std::string describe_wait_status(int status);

}  // namespace gpuwire::daemon
