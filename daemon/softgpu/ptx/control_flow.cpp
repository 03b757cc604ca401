// SPDX-License-Identifier: Apache-2.0
// Splits a function into basic blocks and writes it anew in the order that block_order.cpp finds.
// Blocks that nothing reaches are left out.
#include "block_order.hpp"
#include "builder.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

class rearranger {
 public:
  explicit rearranger(builder& b) : builder_(b), code_(b.target()) {}

  void run() {
    find_blocks();
    find_successors();
    keep_reachable();
    write(order_blocks(successors_));
  }

 private:
  struct block {
    std::uint32_t first = 0, last = 0;  // instructions [first, last)
    std::uint32_t place = 0;            // first instruction in the new order
  };

  std::vector<std::uint32_t> jump_targets(const instruction& i) const {
    if (i.kind != flow::control) return {};
    if (i.extra == jump_direct) return {i.target};
    if (i.extra == jump_table) return code_.branch_tables[i.target];
    return {};
  }

  static bool is_jump(const instruction& i) {
    return i.kind == flow::control && i.extra >= jump_direct && i.extra <= jump_out;
  }

  void find_blocks() {
    const auto& instructions = code_.instructions;
    const auto count = static_cast<std::uint32_t>(instructions.size());
    std::vector<bool> leader(count + 1);
    leader[0] = true;
    for (std::uint32_t at = 0; at < count; ++at) {
      if (is_jump(instructions[at])) leader[at + 1] = true;
      for (const auto target : jump_targets(instructions[at])) leader[target] = true;
    }
    block_of_.resize(count);
    for (std::uint32_t at = 0; at < count; ++at) {
      if (leader[at]) blocks_.push_back({at, at, 0});
      blocks_.back().last = at + 1;
      block_of_[at] = static_cast<std::uint32_t>(blocks_.size() - 1);
    }
  }

  void find_successors() {
    for (std::uint32_t n = 0; n < blocks_.size(); ++n) {
      const instruction& end = code_.instructions[blocks_[n].last - 1];
      std::vector<std::uint32_t> next;
      for (const auto target : jump_targets(end)) next.push_back(block_of_[target]);
      if (!ends_flow(end) && n + 1 < blocks_.size()) next.push_back(n + 1);
      successors_.push_back(std::move(next));
    }
  }

  // Renumbers the blocks so that only those that control can reach are left.
  void keep_reachable() {
    constexpr std::uint32_t unseen = ~0u;
    std::vector<std::uint32_t> number(blocks_.size(), unseen);
    std::vector<std::uint32_t> open{0};
    number[0] = 0;
    while (!open.empty()) {
      const auto at = open.back();
      open.pop_back();
      for (const auto next : successors_[at])
        if (number[next] == unseen) {
          number[next] = 0;
          open.push_back(next);
        }
    }
    std::vector<block> blocks;
    std::vector<std::vector<std::uint32_t>> successors;
    for (std::size_t n = 0; n < blocks_.size(); ++n) {
      if (number[n] == unseen) continue;
      number[n] = static_cast<std::uint32_t>(blocks.size());
      blocks.push_back(blocks_[n]);
      successors.push_back(std::move(successors_[n]));
    }
    for (auto& list : successors)
      for (auto& next : list) next = number[next];
    for (auto& b : block_of_) b = number[b];
    blocks_ = std::move(blocks);
    successors_ = std::move(successors);
  }

  void write(const std::vector<std::uint32_t>& order) {
    std::vector<instruction> instructions;
    std::vector<instruction_operands> shapes;
    for (std::size_t n = 0; n < order.size(); ++n) {
      block& b = blocks_[order[n]];
      b.place = static_cast<std::uint32_t>(instructions.size());
      const std::uint32_t next = n + 1 < order.size() ? order[n + 1] : ~0u;
      for (std::uint32_t at = b.first; at < b.last; ++at) {
        instructions.push_back(code_.instructions[at]);
        shapes.push_back(builder_.shapes_[at]);
      }
      const instruction& end = instructions.back();
      if (ends_flow(end)) {
        // A branch to what follows anyway; kept when it is the whole block, which must not be
        // empty.
        if (end.extra == jump_direct && block_of_[end.target] == next && b.last - b.first > 1) {
          instructions.pop_back();
          shapes.pop_back();
        }
      } else if (const std::uint32_t fall = successors_[order[n]].back(); fall != next) {
        instruction jump;
        jump.run = branch_handler();
        jump.kind = flow::control;
        jump.extra = jump_direct;
        jump.line = end.line;
        jump.target = blocks_[fall].first;
        instructions.push_back(jump);
        shapes.push_back({});
        for (auto& o : instructions.back().o) o = constant_tag;
      }
    }
    for (instruction& i : instructions)
      if (i.kind == flow::control && i.extra == jump_direct)
        i.target = blocks_[block_of_[i.target]].place;
    for (auto& table : code_.branch_tables)
      for (auto& target : table)
        target = block_of_[target] != ~0u ? blocks_[block_of_[target]].place : 0;
    code_.instructions = std::move(instructions);
    builder_.shapes_ = std::move(shapes);
  }

  builder& builder_;
  function_code& code_;
  std::vector<block> blocks_;
  std::vector<std::uint32_t> block_of_;
  std::vector<std::vector<std::uint32_t>> successors_;
};

}  // namespace

void reorder_blocks(builder& b) {
  rearranger(b).run();
}

}  // namespace gpuwire::softgpu::ptx
