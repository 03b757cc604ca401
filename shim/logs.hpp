// SPDX-License-Identifier: Apache-2.0
// What cuLogs* tells a program: the last calls that failed. Kept in this process, whichever side refused the call.
#pragma once

#include <cuda.h>

namespace gpuwire::shim::detail {

// Any thread. Runs the registered callbacks before it returns, as the driver does; a call made in a callback is kept, but
// told to nobody.
void note_failure(const char* name, CUresult result) noexcept;

}  // namespace gpuwire::shim::detail
