// SPDX-License-Identifier: Apache-2.0
// Clusters: blocks that start together, meet at barriers of their own and reach into one another's
// shared memory.
//
// All blocks of a cluster are stepped by one thread in turn, so what they share needs no lock. A
// block that was launched without a cluster is one of its own.
//
// An address in the shared window of another block is its offset there with the block's rank, plus
// one, from bit 24 up: an address of one's own shared memory is its offset alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "program.hpp"

namespace gpuwire::softgpu::ptx {

class executor;

inline constexpr std::uint32_t cluster_rank_shift = 24;
inline constexpr std::uint64_t cluster_offset_mask = (1u << cluster_rank_shift) - 1;

struct cluster_state {
  std::vector<executor*> members;  // by rank
  std::uint64_t phase = 0;         // of the cluster's barrier: how often all have met

  // Begins the next phase when every thread that lives has arrived.
  void check_barrier();
};

std::unique_ptr<block> make_cluster(const launch& shared, dim3 cluster_index);

}  // namespace gpuwire::softgpu::ptx
