// SPDX-License-Identifier: Apache-2.0
// The devices of the session as the program sees them, and the attributes that are reported 0
// because they cannot be honoured over a network (yet), each with its reason.
#pragma once

#include <cuda.h>

#include <span>

#include "shim/state.hpp"
#include "wire/generated/messages.hpp"

namespace gpuwire::shim {

struct withheld_attribute {
  CUdevice_attribute number;
  const char* name;
  const char* reason;  // also in docs/differences.md
};
std::span<const withheld_attribute> withheld_attributes();

// Fills devices, versions and primary contexts from the session's opening. Called by the connecting
// thread.
void take_session(const msg::session_open::reply& session);

// Null for an ordinal that the program does not have.
const device_record* find_device(CUdevice device);

}  // namespace gpuwire::shim
