// SPDX-License-Identifier: Apache-2.0
// What this process knows of its stream captures: how many there are, from before the server is
// asked to begin one until the server says that it is over. While there is one, every command waits
// for its answer, because natively any call may be refused at once; and no query is answered from
// memory. Any thread.
#pragma once

#include <cuda.h>

#include "shim/state.hpp"

namespace gpuwire::shim {

inline bool any_capture() {
  return state().captures.load(std::memory_order_acquire) != 0;
}

// The stream is gone, or its capture is.
void capture_is_over(stream_credit& stream);

}  // namespace gpuwire::shim
