// SPDX-License-Identifier: Apache-2.0
// The undocumented tables that NVIDIA's own libraries ask of the driver. They are static, so their
// addresses are the same for the life of the process; every slot can be called.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpuwire::shim {

// Null for an id that is not served.
const void* export_table(const CUuuid& id);

// The answer of the integrity table: two constants for old versions, else a keyed digest of what
// this process reports.
void integrity_answer(unsigned version, std::uint64_t unix_seconds, std::uint64_t out[2]);

// For the digest, which hashes addresses.
const void* cudart_interface_table();
const void* integrity_table();
const void* integrity_function();

}  // namespace gpuwire::shim
