// SPDX-License-Identifier: Apache-2.0
// Orders a function's basic blocks so that every place where control flow joins lies behind all
// that leads there, and a loop's exit behind the loop. The warp scheduler runs the lanes that are
// furthest behind, so this order is what makes lanes meet again. nvcc places blocks otherwise, for
// instance loop exits before loop bodies.
//
// The order is topological over strongly connected components, each of which is ordered in the same
// way without the edges that return to its first block.
#include "block_order.hpp"

#include <algorithm>

namespace gpuwire::softgpu::ptx {
namespace {

class orderer {
 public:
  explicit orderer(const std::vector<std::vector<std::uint32_t>>& successors)
      : successors_(successors),
        region_(successors.size(), 0),
        index_(successors.size()),
        low_(successors.size()) {}

  std::vector<std::uint32_t> run() {
    std::vector<std::uint32_t> all(successors_.size());
    for (std::uint32_t n = 0; n < all.size(); ++n) all[n] = n;
    // Regions wait on a stack of work, the next one on top; a region that is one block is output at
    // once.
    std::vector<work> open{{std::move(all), no_header}};
    while (!open.empty()) {
      work next = std::move(open.back());
      open.pop_back();
      if (next.header != no_header) result_.push_back(next.header);
      if (next.blocks.empty()) continue;
      auto components = split(next.blocks);
      // The components come out last first, which is the order for a stack.
      for (auto& component : components) open.push_back(prepare(std::move(component)));
    }
    return std::move(result_);
  }

 private:
  static constexpr std::uint32_t no_header = ~0u;
  struct work {
    std::vector<std::uint32_t> blocks;  // without the header
    std::uint32_t header;               // output before them
  };

  // A loop's first block, in the order of the text, comes first; what returns to it no longer
  // counts.
  static work prepare(std::vector<std::uint32_t> component) {
    const auto header = std::min_element(component.begin(), component.end());
    work w{{}, *header};
    component.erase(header);
    w.blocks = std::move(component);
    return w;
  }

  // Tarjan's algorithm over the blocks given, without recursion. Components come in reverse
  // topological order.
  std::vector<std::vector<std::uint32_t>> split(const std::vector<std::uint32_t>& blocks) {
    ++regions_;
    for (const auto b : blocks) {
      region_[b] = regions_;
      index_[b] = 0;
    }
    std::uint32_t counter = 0;
    std::vector<std::vector<std::uint32_t>> components;
    std::vector<std::uint32_t> path;
    struct step {
      std::uint32_t block;
      std::size_t edge;
    };
    std::vector<step> calls;
    constexpr std::uint32_t done = ~0u;
    for (const auto root : blocks) {
      if (index_[root] != 0) continue;
      calls.push_back({root, 0});
      while (!calls.empty()) {
        const std::uint32_t block = calls.back().block;
        if (calls.back().edge == 0) {
          index_[block] = low_[block] = ++counter;
          path.push_back(block);
        }
        bool descended = false;
        while (calls.back().edge < successors_[block].size()) {
          const std::uint32_t to = successors_[block][calls.back().edge++];
          if (region_[to] != regions_) continue;
          if (index_[to] == 0) {
            calls.push_back({to, 0});
            descended = true;
            break;
          }
          if (index_[to] != done) low_[block] = std::min(low_[block], index_[to]);
        }
        if (descended) continue;
        if (low_[block] == index_[block]) {
          components.emplace_back();
          std::uint32_t member;
          do {
            member = path.back();
            path.pop_back();
            index_[member] = done;
            components.back().push_back(member);
          } while (member != block);
        }
        calls.pop_back();
        if (!calls.empty()) {
          const auto parent = calls.back().block;
          low_[parent] = std::min(low_[parent], low_[block]);
        }
      }
    }
    return components;
  }

  const std::vector<std::vector<std::uint32_t>>& successors_;
  std::vector<std::uint32_t> region_, index_, low_;
  std::uint32_t regions_ = 0;
  std::vector<std::uint32_t> result_;
};

}  // namespace

std::vector<std::uint32_t> order_blocks(const std::vector<std::vector<std::uint32_t>>& successors) {
  return orderer(successors).run();
}

}  // namespace gpuwire::softgpu::ptx
