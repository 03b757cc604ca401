// SPDX-License-Identifier: Apache-2.0
// The object behind mbarrier: 64 bits in memory, opaque to programs. Only threads of one block
// touch it, and they run on one thread of this process.
#pragma once

#include <cstdint>
#include <cstring>

namespace gpuwire::softgpu::ptx {

struct barrier_object {
  std::uint64_t pending : 20 = 0;   // arrivals still missing in this phase
  std::uint64_t expected : 20 = 0;  // arrivals that the next phase waits for
  std::uint64_t bytes : 23 = 0;     // announced and not yet copied, modulo 2^23
  std::uint64_t phase : 1 = 0;

  void advance() {
    if (pending != 0 || bytes != 0) return;
    phase ^= 1;
    pending = expected;
  }
};
static_assert(sizeof(barrier_object) == 8);

inline barrier_object load_barrier(const void* at) {
  barrier_object b;
  std::memcpy(&b, at, sizeof b);
  return b;
}

inline void complete_bytes(void* at, std::uint32_t bytes) {
  barrier_object b = load_barrier(at);
  b.bytes -= bytes;
  b.advance();
  std::memcpy(at, &b, sizeof b);
}

}  // namespace gpuwire::softgpu::ptx
