// SPDX-License-Identifier: Apache-2.0
// Which context is current in a thread of the daemon. Commands carry an index; the driver is asked
// only when a thread changes from one to another. Every thread that enters a context is in relaxed
// capture mode.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpuwire::daemon {

struct worker;

// Makes the context of this index current in the calling thread, or none when the index is 0 or not
// alive. False in the latter case.
bool enter_context(worker& w, std::uint32_t index);

// The index of the calling thread's; 0: none.
std::uint32_t current_context();

// Primary contexts have fixed indexes, so that a client can name one before anybody has made it.
constexpr std::uint32_t primary_index(int device) {
  return static_cast<std::uint32_t>(device) + 1;
}

}  // namespace gpuwire::daemon
