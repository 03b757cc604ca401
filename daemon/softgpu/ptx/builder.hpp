// SPDX-License-Identifier: Apache-2.0
// Translates one function's statements into instructions. The instruction families (integer.cpp,
// memory.cpp, ...) decode through this interface: they name operands, the builder finds registers,
// makes constants and adapts widths.
//
// Until registers.cpp assigns slots, an operand is a virtual register: id << 1, or a pool offset |
// constant_tag.
#pragma once

#include <initializer_list>
#include <map>
#include <span>
#include <unordered_map>

#include "code.hpp"
#include "failure.hpp"
#include "syntax.hpp"

namespace gpuwire::softgpu::ptx {

class linker;

enum class register_class : std::uint8_t {
  predicate,
  word,
  quad
};  // 4 bytes, 32 lanes of 4, 32 lanes of 8

struct virtual_register {
  register_class width = register_class::word;
  bool temporary = false;  // written and read within one statement
  type declared = type::b32;
};

struct instruction_operands {
  std::uint8_t definitions = 0;
  std::uint8_t total = 0;
};

enum class rounding : std::uint8_t { none, nearest, zero, down, up };

// An opcode with its modifiers taken apart.
struct form {
  const syntax::statement* statement = nullptr;
  std::vector<std::string_view> words;  // modifiers that are no types, in order
  std::vector<type> types;              // in order

  bool has(std::string_view word) const;
  type t(std::size_t index = 0) const;  // fails when there is none
  std::uint32_t vector() const;         // 1, 2, 4 or 8
  std::size_t operand_count() const { return statement->operands.size(); }
  const syntax::operand& operand(std::size_t index) const;  // fails when there is none
  rounding round() const;
  std::uint32_t line() const { return statement->line; }
};

struct register_symbol {
  std::uint32_t first = 0;  // virtual register of the first element
  std::uint32_t vector_width = 1;
  type kind = type::b32;
};

// A variable in reach: in which space, and where.
struct variable_symbol {
  enum class place : std::uint8_t {
    device,          // index: program variable
    shared,          // offset
    shared_dynamic,  // behind the kernel's static shared memory
    local,           // offset within the frame's local memory
    parameter,       // offset within the frame's .param area
    argument,        // offset within the kernel's arguments
  };
  place where = place::device;
  std::uint32_t index = 0;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  bool constant = false;
};

class builder {
 public:
  builder(linker& link, const syntax::function& source, std::size_t module, function_code& target);
  void run();

  // --- operands
  std::uint32_t source(const syntax::operand& o, type t);
  std::uint32_t destination(const syntax::operand& o, type t);
  std::uint32_t predicate_source(const syntax::operand& o);  // a negated one through a temporary
  std::uint32_t temporary(type t);
  std::uint32_t constant(type t, std::uint64_t bits);
  // The elements of {a, b}, or of one scalar.
  std::vector<std::uint32_t> sources(const syntax::operand& o, type t, std::size_t count);
  std::vector<std::uint32_t> destinations(const syntax::operand& o, type t, std::size_t count);
  const register_symbol* find_register(const syntax::operand& o);
  const variable_symbol* find_variable(std::string_view name);
  // The declared type of a register operand; nothing for immediates.
  std::optional<type> declared_type(const syntax::operand& o);
  bool is_immediate(const syntax::operand& o) const {
    return o.kind == syntax::operand::form::integer || o.kind == syntax::operand::form::f32 ||
           o.kind == syntax::operand::form::f64;
  }

  // --- output. The reference is good until the next emit.
  instruction& emit(handler run, std::span<const std::uint32_t> definitions,
                    std::span<const std::uint32_t> uses, flow kind = flow::plain);
  instruction& emit(handler run, std::initializer_list<std::uint32_t> definitions,
                    std::initializer_list<std::uint32_t> uses, flow kind = flow::plain) {
    return emit(run, std::span(definitions.begin(), definitions.size()),
                std::span(uses.begin(), uses.size()), kind);
  }
  // The next instruction's target becomes the label's place.
  void target_label(instruction& i, std::string_view label);
  std::uint32_t branch_table(std::string_view name);
  // A place in the frame's .param area for an argument that is no .param variable.
  std::uint32_t reserve_parameter(std::uint32_t bytes, std::uint32_t align);
  const syntax::prototype* find_prototype(std::string_view name);

  linker& link() { return link_; }
  std::size_t module() const { return module_; }
  function_code& target() { return target_; }
  const function_code& target() const { return target_; }
  const syntax::function& function() const { return source_; }
  std::uint32_t line() const { return line_; }

  std::vector<virtual_register> registers_;
  std::vector<instruction_operands> shapes_;  // beside target().instructions

 private:
  struct scope {
    std::size_t parent = 0;
    std::unordered_map<std::string_view, std::uint32_t> labels;  // label ids
    std::unordered_map<std::string_view, register_symbol> registers;
    std::vector<std::pair<std::string_view, const syntax::register_declaration*>> prefixes;
    std::unordered_map<std::string_view, variable_symbol> variables;
    std::unordered_map<std::string_view, const syntax::statement*> tables;
    std::uint32_t parameter_top = 0;
  };

  void find_labels();
  void declare_formals();
  void declare_registers(const syntax::register_declaration& d);
  void declare_variable(const syntax::variable& v);
  void translate(const syntax::statement& s);
  std::uint32_t new_register(type t, bool temporary);
  std::uint32_t label_id(std::string_view name);
  std::uint32_t address_of(const syntax::operand& o, type t);
  std::uint32_t special(const syntax::operand& o, type t);
  std::uint32_t adapt_source(std::uint32_t operand, type declared, type wanted);
  void resolve_labels();

  linker& link_;
  const syntax::function& source_;
  std::size_t module_;
  function_code& target_;
  std::vector<scope> scopes_;
  std::size_t scope_ = 0;
  std::size_t scopes_opened_ = 0;
  std::vector<std::uint32_t> label_places_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> label_uses_;  // instruction, label id
  std::uint32_t guard_ = constant_tag;
  std::uint32_t guard_flip_ = ~0u;
  bool guarded_output_ = true;
  std::uint32_t line_ = 0;
  struct widening {
    std::uint32_t destination, source;
    type declared, written;
  };
  std::vector<widening> after_;
};

// What a family file offers: its opcodes, each with the function that decodes it. Several entries
// may share an opcode; they are tried in order until one says true.
struct decode_entry {
  std::string_view opcode;
  bool (*decode)(builder&, const form&);
};
using decode_table = std::span<const decode_entry>;

decode_table integer_instructions();
decode_table wide_integer_instructions();
decode_table bit_instructions();
decode_table floating_instructions();
decode_table approximate_instructions();
decode_table half_instructions();
decode_table compare_instructions();
decode_table convert_instructions();
decode_table convert_eight_instructions();
decode_table move_instructions();
decode_table memory_instructions();
decode_table copy_instructions();
decode_table cluster_instructions();
// barrier.cluster in its forms, and isspacep.shared::cta; cluster.cpp.
bool decode_cluster_barrier(builder& b, const form& f);
handler own_shared_test();
decode_table atomic_instructions();
decode_table warp_instructions();
decode_table barrier_instructions();
decode_table mbarrier_instructions();
decode_table control_instructions();
decode_table call_instructions();
decode_table video_instructions();
decode_table texture_instructions();
decode_table image_query_instructions();
decode_table surface_instructions();
decode_table matrix_instructions();
decode_table matrix_memory_instructions();

// Takes the statement's modifiers apart and lets the families decode it. Throws compile_failure for
// an unknown one.
void decode(builder& b, const syntax::statement& s);

// Orders the basic blocks for the warp scheduler, targets resolved. (control_flow.cpp)
void reorder_blocks(builder& b);
// What executes bra. (control.cpp)
handler branch_handler();

// Gives every virtual register a place in the frame; sets register_bytes. (registers.cpp)
void assign_registers(builder& b);

// All lanes of the warp wait for each other. (warp_sync.cpp)
void emit_warp_barrier(builder& b);
// d = !a for predicates. (compare.cpp)
handler predicate_inversion();
// Moves between registers of different widths. (move.cpp)
handler widening_move(type declared, type written);
handler narrowing_move();
handler register_move(register_class width);
// Special registers by name, null when unknown. (special.cpp)
handler special_register(std::string_view name, std::string_view component, type& kind);
// Between a register and `offset` of the frame's .param area. (memory.cpp)
void store_parameter_of(builder& b, type t, std::uint32_t source, std::uint32_t offset);
void load_parameter_of(builder& b, type t, std::uint32_t destination, std::uint32_t offset);
// Addresses that only the launch knows. (move.cpp)
handler address_move(variable_symbol::place where, type t);

}  // namespace gpuwire::softgpu::ptx
