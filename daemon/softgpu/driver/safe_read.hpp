// SPDX-License-Identifier: Apache-2.0
// Reading through pointers that a caller may have got wrong.
#pragma once

#include <cstdint>

namespace gpuwire::softgpu {

// A copy that returns false where the memory is not readable, instead of faulting. Where a sandbox
// forbids the system call behind it the memory is read directly.
bool read_memory(std::uint64_t address, void* into, std::uint64_t bytes);
// Whether the first and the last byte of the range can be read.
bool readable(std::uint64_t address, std::uint64_t bytes);

}  // namespace gpuwire::softgpu
