// SPDX-License-Identifier: Apache-2.0
// Streams and events: ids minted here, created on the server by posted commands. Flags, priority
// and context are answered from here, whether work is done is asked of the server.
#pragma once

#include <cuda.h>

#include "shim/state.hpp"

namespace gpuwire::shim {

// Null for a handle that is none or was destroyed.
event_record* find_event(CUevent event);

// The credit that a push names. Null when stream, context or lane are unknown by now.
stream_credit* credit_of(std::uint64_t stream, std::uint32_t context, std::uint32_t lane);

// The daemon counts a context's default streams from zero again when it is gone.
void restart_default_stream_credits(context_record& context);

void forget_streams_of(std::uint32_t context);
void forget_events_of(std::uint32_t context);

}  // namespace gpuwire::shim
