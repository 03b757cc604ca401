// SPDX-License-Identifier: Apache-2.0
// A stream as the driver knows it, and the context it belongs to: events for it must come from the
// same context.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpuwire::daemon {

struct stream_reference {
  CUstream native = nullptr;
  std::uint32_t context = 0;  // index
};

// Values of stream handles that CUDA gives a meaning.
inline constexpr std::uint64_t stream_legacy = 0, stream_legacy_by_name = 1, stream_per_thread = 2;

}  // namespace gpuwire::daemon
