// SPDX-License-Identifier: Apache-2.0
// What the client says beside the ordered stream. Runs on the side thread, which waits for nobody:
// nothing here calls the driver or takes a lock that is held across such a call.
#pragma once

#include <cstdint>

#include "wire/codec.hpp"

namespace gpuwire::daemon {

struct worker;

// False: the client broke a rule.
bool handle_notice(worker& w, std::uint16_t call, std::uint32_t lane, wire::decoder& body);

}  // namespace gpuwire::daemon
