// SPDX-License-Identifier: Apache-2.0
// Compiled PTX: what the compiler makes and the executor runs. Immutable after compile(), shared by
// all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "program.hpp"
#include "type.hpp"

namespace gpuwire::softgpu::ptx {

inline constexpr std::uint32_t warp_lanes = 32;
inline constexpr std::uint32_t all_lanes = ~0u;

// Generic addresses: state spaces other than .global lie in windows that no device address reaches.
inline constexpr std::uint64_t window_mask = 0xFF00'0000'0000'0000;
inline constexpr std::uint64_t shared_window = 0x0100'0000'0000'0000;
inline constexpr std::uint64_t local_window = 0x0200'0000'0000'0000;
inline constexpr std::uint64_t parameter_window = 0x0300'0000'0000'0000;
inline constexpr std::uint64_t function_window = 0x0400'0000'0000'0000;

class executor;
struct instruction;

// Executes one instruction for the lanes set in `lanes`, which is never 0.
using handler = void (*)(executor&, const instruction&, std::uint32_t lanes);

enum class flow : std::uint8_t {
  plain,    // cannot fail
  checked,  // may raise a fault
  control,  // sets the next program counter itself
};

// An operand is a byte offset into the frame's registers, or, with bit 0 set, into the constant
// pool. Both hold a value as 32 lanes of 4 or 8 bytes; a predicate is one word with a bit a lane.
// Destinations come first.
inline constexpr std::uint32_t operand_count_max = 6;
inline constexpr std::uint32_t constant_tag = 1;

struct instruction {
  handler run = nullptr;
  std::uint32_t o[operand_count_max] = {};
  std::uint32_t guard = constant_tag;  // the pool begins with an all-zero value
  std::uint32_t guard_flip = ~0u;
  std::int64_t immediate = 0;
  std::uint32_t sub = 0;     // the family's own flags
  std::uint32_t target = 0;  // program counter, or index into a side table
  std::uint32_t line = 0;
  flow kind = flow::plain;
  std::uint8_t count = 1;  // vector elements
  std::uint8_t extra = 0;  // the family's own; of flow::control, 1 to 3 are the jumps below
};
inline constexpr std::uint8_t jump_direct = 1;  // target: a program counter
inline constexpr std::uint8_t jump_table = 2;   // target: a branch table
inline constexpr std::uint8_t jump_out = 3;     // leaves the function

// Nothing follows this instruction but what it jumps to.
inline bool ends_flow(const instruction& i) {
  return i.kind == flow::control && i.guard == constant_tag && i.extra >= jump_direct &&
         i.extra <= jump_out;
}
static_assert(sizeof(instruction) == 64, "one cache line");

struct slice {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

enum class system_call : std::uint8_t {
  none,
  print,
  assertion_failed,
  allocate,
  free,
  set_condition
};

// Arguments and results lie in the .param area of the caller's frame.
struct call_site {
  std::uint32_t function = 0;  // when direct
  bool indirect = false;
  system_call system = system_call::none;
  std::vector<slice> arguments;
  std::vector<slice> results;
};

struct function_code {
  std::string name;
  bool entry = false;
  std::vector<instruction> instructions;
  std::uint32_t register_bytes = 0;
  std::uint32_t parameter_bytes = 0;  // the frame's .param area, a lane
  std::uint32_t local_bytes = 0;
  std::vector<slice> results;     // formal ones, within the .param area
  std::vector<slice> parameters;  // formal ones; of an entry: within the argument buffer
  std::vector<call_site> calls;
  std::vector<std::vector<std::uint32_t>> branch_tables;
};

class compiled_program final : public program {
 public:
  std::span<const kernel_info> kernels() const override { return kernels_; }
  std::span<const variable_info> variables() const override { return variables_; }

  std::vector<kernel_info> kernels_;
  std::vector<std::uint32_t> kernel_functions_;        // index into functions_ of each kernel
  std::vector<std::uint32_t> dynamic_shared_offsets_;  // of each kernel
  std::vector<variable_info> variables_;
  std::vector<function_code> functions_;
  std::vector<std::byte> constants_;
};

}  // namespace gpuwire::softgpu::ptx
