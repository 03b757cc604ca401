// SPDX-License-Identifier: Apache-2.0
#include "shim/result.hpp"

namespace gpuwire::shim {

CUresult result_from(wire::error transport) {
  switch (transport) {
    case wire::error::ok:
      return CUDA_SUCCESS;
    case wire::error::shut_down:
      return CUDA_ERROR_DEINITIALIZED;
    // The message was too large to be sent; the session lives on.
    case wire::error::limit_exceeded:
      return CUDA_ERROR_NOT_SUPPORTED;
    case wire::error::not_resolved:
    case wire::error::refused_connection:
    case wire::error::not_gpuwire:
    case wire::error::version_mismatch:
    case wire::error::authentication_failed:
    case wire::error::refused:
      return unreachable_result;
    case wire::error::timed_out:
    case wire::error::connection_lost:
    case wire::error::protocol_violation:
    case wire::error::system_failure:
      return lost_connection_result;
  }
  return lost_connection_result;
}

}  // namespace gpuwire::shim
