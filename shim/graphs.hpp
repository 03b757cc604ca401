// SPDX-License-Identifier: Apache-2.0
// Executable graphs that this process made. Their launches are posted, so they are looked up here first.
#pragma once

#include <cuda.h>

#include "shim/state.hpp"

namespace gpuwire::shim {

// Null for a handle that is none or was destroyed.
exec_record* find_exec(CUgraphExec exec);

}  // namespace gpuwire::shim
