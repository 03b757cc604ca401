// SPDX-License-Identifier: Apache-2.0
// The occupancy model: how many blocks of a kernel are resident on a multiprocessor at once. It is
// that of compute capability 9.0: 2048 threads, 32 blocks, 65536 registers given out to warps in
// units of 256, and 228 KiB of shared memory given out in units of 128 bytes with 1 KiB reserved
// per block. The scheduler obeys it, so that a cooperative kernel which is accepted has all its
// blocks resident.
#pragma once

#include <cstdint>

#include "../ptx/program.hpp"

namespace gpuwire::softgpu {

unsigned resident_blocks(const ptx::kernel_info& kernel, std::uint64_t block_threads,
                         std::uint64_t dynamic_shared_bytes);

}  // namespace gpuwire::softgpu
