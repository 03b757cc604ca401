// SPDX-License-Identifier: Apache-2.0
// Where the transport's errors and the driver's codes meet.
#pragma once

#include <cuda.h>

#include "wire/error.hpp"

namespace gpuwire::shim {

// The server could not be reached: nothing was started, a later cuInit may succeed.
inline constexpr CUresult unreachable_result = CUDA_ERROR_SYSTEM_NOT_READY;
// The connection broke: the state on the server is gone, every later call returns this.
inline constexpr CUresult lost_connection_result = CUDA_ERROR_EXTERNAL_DEVICE;

CUresult result_from(wire::error transport);

// Codes after which the driver refuses everything in that context.
constexpr bool is_sticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
      return true;
    default:
      return false;
  }
}

}  // namespace gpuwire::shim
