// SPDX-License-Identifier: Apache-2.0
// What the server says unasked. Runs on the side connection's thread, which never waits for
// anything.
#pragma once

#include <cstdint>

#include "wire/codec.hpp"

namespace gpuwire::shim {

void handle_push(std::uint16_t call, std::uint32_t lane, wire::decoder& body);

}  // namespace gpuwire::shim
