// SPDX-License-Identifier: Apache-2.0
#include "fault.hpp"

#include <cstdio>

namespace gpuwire::softgpu {

CUresult fault_code(ptx::fault_kind kind) {
  switch (kind) {
    case ptx::fault_kind::none:
      return CUDA_SUCCESS;
    case ptx::fault_kind::illegal_address:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ptx::fault_kind::misaligned_address:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case ptx::fault_kind::illegal_instruction:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case ptx::fault_kind::assertion:
      return CUDA_ERROR_ASSERT;
    // Beyond the stack lies memory that is not the thread's.
    case ptx::fault_kind::out_of_stack:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ptx::fault_kind::invalid_pc:
      return CUDA_ERROR_INVALID_PC;
    case ptx::fault_kind::trap:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

void report_fault(const ptx::fault& fault) {
  // A failed assertion is printed as the driver prints it: programs and tests look for that text.
  const bool own_words = fault.kind == ptx::fault_kind::assertion;
  const bool ends_line = !fault.text.empty() && fault.text.back() == '\n';
  std::fprintf(stderr, "%s%s%s", own_words ? "" : "gpuwire soft GPU: ", fault.text.c_str(),
               ends_line ? "" : "\n");
}

}  // namespace gpuwire::softgpu
