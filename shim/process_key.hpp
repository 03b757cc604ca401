// SPDX-License-Identifier: Apache-2.0
// A number that is the same for all connections of this process, whichever of our libraries opened
// them, and differs from those of all other processes: by it the server joins them. It is no
// secret. Any thread.
#pragma once

#include <cstdint>

namespace gpuwire::shim {

std::uint64_t process_key();  // never 0

}  // namespace gpuwire::shim
