// SPDX-License-Identifier: Apache-2.0
// Launch and stream attributes: the union that CUDA passes, taken apart by its id for the wire and
// put together again. What is not listed here is refused before anything is launched.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

#include "wire/generated/messages.hpp"

namespace gpuwire::shim {

// No launch has more than one of each kind; the daemon's message has no place for thousands.
inline constexpr unsigned attributes_max = 32;

using attribute_values =
    std::array<std::int32_t, 4>;  // what the encoded attribute's view points to

// False for an id that cannot be carried.
bool encode_attribute(CUlaunchAttributeID id, const CUlaunchAttributeValue& value,
                      msg::launch_attribute& out, attribute_values& storage);
bool decode_attribute(const msg::launch_attribute& in, CUlaunchAttributeValue& value);

}  // namespace gpuwire::shim
