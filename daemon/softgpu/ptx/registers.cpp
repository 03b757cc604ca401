// SPDX-License-Identifier: Apache-2.0
// Gives virtual registers places in the frame. nvcc writes almost single-assignment code, so frames
// would be many times larger than what is alive at once; liveness per thread is enough, since lanes
// never read each other's columns except through instructions that copy first.
#include <algorithm>
#include <array>

#include "builder.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

struct basic_block {
  std::uint32_t first = 0, last = 0;  // instructions [first, last)
  std::vector<std::uint32_t> successors;
};

class bit_set {
 public:
  explicit bit_set(std::size_t bits = 0) : words_((bits + 63) / 64) {}
  bool test(std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void set(std::size_t i) { words_[i / 64] |= 1ull << (i % 64); }
  void reset(std::size_t i) { words_[i / 64] &= ~(1ull << (i % 64)); }
  // this |= other; whether anything changed.
  bool merge(const bit_set& other) {
    std::uint64_t changed = 0;
    for (std::size_t w = 0; w < words_.size(); ++w) {
      changed |= other.words_[w] & ~words_[w];
      words_[w] |= other.words_[w];
    }
    return changed != 0;
  }
  template <class Function>
  void each(Function function) const {
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::uint64_t m = words_[w]; m != 0; m &= m - 1)
        function(static_cast<std::uint32_t>(w * 64 + std::countr_zero(m)));
  }

 private:
  std::vector<std::uint64_t> words_;
};

class register_assigner {
 public:
  explicit register_assigner(builder& b)
      : code_(b.target()), registers_(b.registers_), shapes_(b.shapes_) {}

  void run() {
    find_blocks();
    find_liveness();
    find_intervals();
    assign();
    rewrite();
  }

 private:
  static bool is_register(std::uint32_t operand) { return (operand & constant_tag) == 0; }

  template <class Function>
  void each_use(std::uint32_t at, Function function) const {
    const instruction& i = code_.instructions[at];
    for (std::uint32_t n = shapes_[at].definitions; n < shapes_[at].total; ++n)
      if (is_register(i.o[n])) function(i.o[n] >> 1);
    if (is_register(i.guard)) function(i.guard >> 1);
  }

  template <class Function>
  void each_definition(std::uint32_t at, Function function) const {
    const instruction& i = code_.instructions[at];
    for (std::uint32_t n = 0; n < shapes_[at].definitions; ++n) function(i.o[n] >> 1);
  }

  bool kills(std::uint32_t at, std::uint32_t id) const {
    return !is_register(code_.instructions[at].guard) || registers_[id].temporary;
  }

  void find_blocks() {
    const auto count = static_cast<std::uint32_t>(code_.instructions.size());
    std::vector<bool> leader(count + 1);
    leader[0] = true;
    for (std::uint32_t at = 0; at < count; ++at) {
      if (code_.instructions[at].kind != flow::control) continue;
      leader[at + 1] = true;
      for (const auto target : targets(at)) leader[target] = true;
    }
    std::vector<std::uint32_t> block_of(count + 1);
    for (std::uint32_t at = 0; at < count; ++at) {
      if (leader[at]) blocks_.push_back({at, at, {}});
      blocks_.back().last = at + 1;
      block_of[at] = static_cast<std::uint32_t>(blocks_.size() - 1);
    }
    for (auto& block : blocks_) {
      const std::uint32_t end = block.last - 1;
      for (const auto target : targets(end)) block.successors.push_back(block_of[target]);
      if (block.last < count && !ends_flow(code_.instructions[end]))
        block.successors.push_back(block_of[block.last]);
    }
  }

  std::vector<std::uint32_t> targets(std::uint32_t at) const {
    const instruction& i = code_.instructions[at];
    if (i.kind != flow::control) return {};
    if (i.extra == jump_direct) return {i.target};
    if (i.extra == jump_table) return code_.branch_tables[i.target];
    return {};
  }

  void find_liveness() {
    const std::size_t bits = registers_.size();
    std::vector<bit_set> killed;
    for (const auto& block : blocks_) {
      bit_set use(bits), kill(bits);
      for (std::uint32_t at = block.first; at < block.last; ++at) {
        each_use(at, [&](std::uint32_t id) {
          if (!kill.test(id)) use.set(id);
        });
        each_definition(at, [&](std::uint32_t id) {
          if (kills(at, id)) kill.set(id);
        });
      }
      live_in_.push_back(std::move(use));
      killed.push_back(std::move(kill));
      live_out_.emplace_back(bits);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t n = blocks_.size(); n-- > 0;) {
        bool grew = false;
        for (const auto s : blocks_[n].successors) grew |= live_out_[n].merge(live_in_[s]);
        if (!grew) continue;
        changed = true;
        live_out_[n].each([&](std::uint32_t id) {
          if (!killed[n].test(id)) live_in_[n].set(id);
        });
      }
    }
  }

  void extend(std::uint32_t id, std::uint32_t at) {
    first_[id] = std::min(first_[id], at);
    last_[id] = std::max(last_[id], at);
  }

  void find_intervals() {
    first_.assign(registers_.size(), ~0u);
    last_.assign(registers_.size(), 0);
    for (std::size_t n = 0; n < blocks_.size(); ++n) {
      const auto& block = blocks_[n];
      live_in_[n].each([&](std::uint32_t id) { extend(id, block.first); });
      live_out_[n].each([&](std::uint32_t id) { extend(id, block.last - 1); });
      for (std::uint32_t at = block.first; at < block.last; ++at) {
        each_use(at, [&](std::uint32_t id) { extend(id, at); });
        each_definition(at, [&](std::uint32_t id) { extend(id, at); });
      }
    }
  }

  // Linear scan. A register ends after its last instruction, so sources and destinations of one
  // never coincide.
  void assign() {
    std::vector<std::uint32_t> order;
    for (std::uint32_t id = 0; id < registers_.size(); ++id)
      if (first_[id] != ~0u) order.push_back(id);
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return first_[a] < first_[b]; });
    std::vector<std::uint32_t> by_end = order;
    std::sort(by_end.begin(), by_end.end(),
              [&](std::uint32_t a, std::uint32_t b) { return last_[a] < last_[b]; });
    slot_.assign(registers_.size(), 0);
    std::array<std::vector<std::uint32_t>, 3> free;
    std::size_t ended = 0;
    for (const auto id : order) {
      for (; ended < by_end.size() && last_[by_end[ended]] < first_[id]; ++ended) {
        const auto gone = by_end[ended];
        free[width(gone)].push_back(slot_[gone]);
      }
      auto& available = free[width(id)];
      if (available.empty()) {
        slot_[id] = used_[width(id)]++;
      } else {
        slot_[id] = available.back();
        available.pop_back();
      }
    }
  }

  std::size_t width(std::uint32_t id) const {
    return static_cast<std::size_t>(registers_[id].width);
  }

  void rewrite() {
    constexpr std::array<std::uint32_t, 3> bytes{4, warp_lanes * 4, warp_lanes * 8};
    const std::uint32_t words = used_[2] * bytes[2];
    const std::uint32_t predicates = words + used_[1] * bytes[1];
    const std::array<std::uint32_t, 3> base{predicates, words, 0};
    code_.register_bytes = (predicates + used_[0] * 4 + 63) / 64 * 64;
    const auto place = [&](std::uint32_t& operand) {
      if (!is_register(operand)) return;
      const auto id = operand >> 1;
      operand = base[width(id)] + slot_[id] * bytes[width(id)];
    };
    for (instruction& i : code_.instructions) {
      for (auto& operand : i.o) place(operand);
      place(i.guard);
    }
  }

  function_code& code_;
  const std::vector<virtual_register>& registers_;
  const std::vector<instruction_operands>& shapes_;
  std::vector<basic_block> blocks_;
  std::vector<bit_set> live_in_, live_out_;
  std::vector<std::uint32_t> first_, last_, slot_;
  std::array<std::uint32_t, 3> used_{};
};

}  // namespace

void assign_registers(builder& b) {
  register_assigner(b).run();
}

}  // namespace gpuwire::softgpu::ptx
