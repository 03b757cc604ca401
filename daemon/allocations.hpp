// SPDX-License-Identifier: Apache-2.0
// Handles of physical memory. The driver may give the same one out several times, and each wants its own release.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpuwire::daemon {

class call_context;

// The number of a handle that the driver has just given out, once more or for the first time. Any thread.
std::uint64_t give_allocation(call_context& c, CUmemGenericAllocationHandle native);

}  // namespace gpuwire::daemon
