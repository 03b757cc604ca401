// SPDX-License-Identifier: Apache-2.0
// One wait for, or write of, a value in memory, as an operation of a stream.
#pragma once

#include "stream.hpp"

namespace gpuwire::softgpu {

constexpr unsigned batch_operations_max = 256;  // as the manual says

// Checks it; refuses with the driver's codes.
operation batch_operation(const CUstreamBatchMemOpParams& one);

}  // namespace gpuwire::softgpu
