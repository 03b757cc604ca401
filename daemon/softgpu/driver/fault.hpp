// SPDX-License-Identifier: Apache-2.0
// How a kernel's fault becomes the driver's error code, and the one line about it on stderr.
#pragma once

#include "../ptx/program.hpp"
#include "cuda_api.hpp"

namespace gpuwire::softgpu {

CUresult fault_code(ptx::fault_kind kind);
void report_fault(const ptx::fault& fault);

}  // namespace gpuwire::softgpu
