// SPDX-License-Identifier: Apache-2.0
// A call that is answered when the GPU has reached a place in a stream: a synchronise, or a copy to
// the host that rides in its reply.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "daemon/staging.hpp"
#include "daemon/worker.hpp"

namespace gpuwire::daemon {

struct pending_wait {
  call_ticket ticket;
  CUevent event = nullptr;
  std::uint32_t context = 0;  // of the event
  bool pooled = true;         // the daemon's own event, not the application's
  staging_block block;        // data that the reply carries
  std::uint64_t bytes = 0;
};

// Has the GPU got there (or failed)? Does not wait.
bool is_reached(worker& w, const pending_wait& wait);

// Polls for a while, then blocks in the driver. Never on the executor.
void wait_until_reached(worker& w, const pending_wait& wait);

// Ends in the real cuEventSynchronize, which shows what kernels printed and returns the error;
// pushes that output, replies, gives back what the wait holds. On the executor only when deliveries
// have been settled, because settling may wait.
enum class deliveries_settled : bool { no, yes };
void finish_wait(worker& w, pending_wait wait, deliveries_settled settled = deliveries_settled::no);

}  // namespace gpuwire::daemon
