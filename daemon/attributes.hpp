// SPDX-License-Identifier: Apache-2.0
// Launch and stream attributes between wire and driver: the union is taken apart member by member,
// nothing is copied whole.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "daemon/call_context.hpp"
#include "wire/generated/messages_structs.hpp"

namespace gpuwire::daemon {

inline constexpr std::size_t launch_attributes_max = 64;

using attribute_values = std::array<std::int32_t, 3>;

// Integers of an attribute's value; -1 for an attribute that is not carried.
int attribute_value_count(CUlaunchAttributeID id);

// Nothing wrong: CUDA_SUCCESS. Handles are translated through `c`.
CUresult decode_attribute(call_context& c, const msg::launch_attribute& in, CUlaunchAttribute& out);
CUresult decode_attributes(call_context& c, const std::vector<msg::launch_attribute>& in,
                           std::vector<CUlaunchAttribute>& out);

// Without handles: those that a stream can have. `storage` holds the integers that `out` points to.
bool encode_attribute(CUlaunchAttributeID id, const CUlaunchAttributeValue& value,
                      msg::launch_attribute& out, attribute_values& storage);

}  // namespace gpuwire::daemon
