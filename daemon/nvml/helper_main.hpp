// SPDX-License-Identifier: Apache-2.0
// The NVML helper: one process for all clients of a daemon, one thread for each connection. It
// never touches CUDA.
#pragma once

namespace gpuwire::daemon {

// argv: gpuwired --nvml LIBRARY LOG-LEVEL read|write, its channel as descriptor 3.
int run_nvml_helper(int argc, const char* const* argv);

}  // namespace gpuwire::daemon
