// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace gpuwire::softgpu::ptx {

// An order of the blocks of a control-flow graph, block 0 first, in which joins follow what they
// join and loop exits follow loops.
std::vector<std::uint32_t> order_blocks(const std::vector<std::vector<std::uint32_t>>& successors);

}  // namespace gpuwire::softgpu::ptx
