// SPDX-License-Identifier: Apache-2.0
// A process may load two copies of this library by two paths. Two connections would be two sets of
// contexts and handles that do not mix, so only the first copy that needs the server gets one; the
// other says so and fails.
#pragma once

#include <cstdint>
#include <string>

extern "C" {

// Found by name in every mapped libcuda; also how a daemon recognises that its "driver" is this
// library.
struct gpuwire_instance {
  std::uint32_t abi;      // 1
  std::uint32_t claimed;  // not 0: this copy holds the connection; read and written atomically
};
gpuwire_instance* gpuwire_instance_v1();
}

namespace gpuwire::shim {

// The path of another copy that holds the connection; empty if there is none.
std::string other_instance();
void claim_instance();

}  // namespace gpuwire::shim
