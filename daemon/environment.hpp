// SPDX-License-Identifier: Apache-2.0
// The environment of a worker: the daemon's own without what could redirect it, plus the client's
// CUDA_* variables as far as they are harmless on this machine. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuwire::daemon {

using variable_list = std::vector<std::pair<std::string, std::string>>;

// May a client decide this variable? Paths of this machine and the choice of devices are not among
// them: device visibility is applied by the client's library, so that numbers mean the same
// everywhere.
bool client_may_set(std::string_view name);

// `own` is the environment of the daemon, NAME=value. `library_folder` is added as LD_LIBRARY_PATH
// when it is not empty: the driver finds its companions there.
std::vector<std::string> worker_environment(const std::vector<std::string>& own,
                                            const variable_list& client,
                                            const std::string& library_folder);

std::vector<std::string> own_environment();

}  // namespace gpuwire::daemon
