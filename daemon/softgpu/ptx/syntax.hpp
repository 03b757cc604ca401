// SPDX-License-Identifier: Apache-2.0
// What the parser makes of one PTX text: declarations and flat statement lists, names unresolved.
// Views point into the text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "type.hpp"

namespace gpuwire::softgpu::ptx::syntax {

struct operand {
  enum class form : std::uint8_t {
    name,     // a register, variable, label or function, with an addend
    integer,  // bits
    f32,      // bits: a 32-bit pattern (0f...)
    f64,      // bits: a 64-bit pattern (0d... or a decimal fraction)
    address,  // [items[0] + addend], further items are coordinates or cache policies
    vector,   // {a, b, ...}
    pair,     // a|b
    list,     // (a, b, ...) of a call
    sink,     // _
  };
  form kind = form::sink;
  bool negated = false;  // !p
  std::string_view name;
  std::string_view component;  // x of %tid.x
  std::uint64_t bits = 0;
  std::int64_t addend = 0;
  std::vector<operand> items;
};

struct guard {
  std::string_view name;  // empty: none
  bool negated = false;
};

// One element of an initialiser, in order, nested braces flattened.
struct initial_value {
  operand::form kind = operand::form::integer;  // integer, f32, f64 or name
  std::uint64_t bits = 0;
  std::string_view name;
  std::int64_t addend = 0;
  bool generic = false;
  std::uint64_t byte_mask = 0;  // 0xFF00(name): only these bits, shifted down; 0: the whole value
  std::size_t position = 0;     // element index within the variable
};

struct variable {
  enum class space : std::uint8_t { global, constant, shared, local, parameter };
  enum class linkage : std::uint8_t { none, visible, external, weak, common };
  space where = space::global;
  linkage link = linkage::none;
  bool managed = false;
  type element = type::b8;
  std::uint32_t vector_width = 1;
  std::uint64_t elements = 1;  // product of the array sizes, 0 for []
  std::uint32_t align = 0;     // 0: natural
  std::string_view name;
  std::uint32_t line = 0;
  bool has_initial = false;
  std::vector<initial_value> initial;

  std::uint64_t bytes() const { return elements * vector_width * bytes_of(element); }
  std::uint32_t alignment() const { return align != 0 ? align : bytes_of(element) * vector_width; }
};

struct register_declaration {
  type kind = type::b32;
  std::uint32_t vector_width = 1;
  std::string_view name;
  std::optional<std::uint32_t> count;  // %r<count>: %r0 and so on
};

// The shape of an indirect call's target.
struct prototype {
  std::vector<variable> returns;
  std::vector<variable> parameters;
};

struct statement {
  enum class form : std::uint8_t {
    instruction,
    label,
    scope_begin,
    scope_end,
    registers,
    variable,
    branch_targets,  // name: the table's label; targets
    call_targets,
    call_prototype,
  };
  form kind = form::instruction;
  std::uint32_t line = 0;
  std::string_view name;  // opcode, label or table
  syntax::guard guard;
  std::vector<std::string_view> modifiers;
  std::vector<operand> operands;
  std::uint32_t index = 0;  // into function::registers, variables or prototypes
  std::vector<std::string_view> targets;
};

struct function {
  std::string_view name;
  variable::linkage link = variable::linkage::none;
  bool entry = false;
  bool has_body = false;
  std::uint32_t line = 0;
  std::uint32_t threads_max = 0;           // from .maxntid or .reqntid; 0: none
  std::array<std::uint32_t, 3> cluster{};  // from .reqnctapercluster; zeroes: none
  std::vector<variable> returns;
  std::vector<variable> parameters;
  std::vector<statement> body;
  std::vector<register_declaration> registers;
  std::vector<variable> variables;
  std::vector<prototype> prototypes;
};

struct module {
  std::uint32_t target = 0;  // compute capability, 75 for sm_75
  std::vector<variable> variables;
  std::vector<function> functions;
};

}  // namespace gpuwire::softgpu::ptx::syntax
