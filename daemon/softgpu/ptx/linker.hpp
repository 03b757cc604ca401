// SPDX-License-Identifier: Apache-2.0
// Joins the parsed texts of one program: names across modules, layout of variables, constant pool,
// functions.
#pragma once

#include <set>
#include <string>
#include <unordered_map>

#include "builder.hpp"

namespace gpuwire::softgpu::ptx {

class linker {
 public:
  explicit linker(std::vector<syntax::module> modules) : modules_(std::move(modules)) {}

  // Throws compile_failure.
  std::shared_ptr<const program> run();

  // --- for the builder
  struct function_reference {
    std::uint32_t index = 0;  // into the program's functions
    system_call system = system_call::none;
    const syntax::function* source = nullptr;
  };
  std::optional<function_reference> find_function(std::size_t module, std::string_view name) const;
  std::optional<variable_symbol> find_variable(std::size_t module, std::string_view name) const;
  // A .shared, .global or .const variable declared inside a function's body.
  variable_symbol place_in_function(const builder& b, const syntax::variable& v);
  std::uint32_t constant(type t, std::uint64_t bits);
  bool is_declared_function(std::size_t module, std::string_view name) const;

 private:
  struct module_names {
    std::unordered_map<std::string_view, variable_symbol> variables;
    std::unordered_map<std::string_view, function_reference> functions;
    std::set<std::string_view> missing_functions;  // declared .extern, defined nowhere
    std::set<std::string_view> missing_variables;
  };
  struct pending_function {
    std::size_t module;
    const syntax::function* source;
    // What the body names; decides where an entry's own shared variables begin.
    std::set<std::uint32_t> callees;
    bool names_common_shared = false;
    bool calls_indirectly = false;
    std::uint32_t own_shared_bytes = 0;
  };
  struct pending_initial {
    std::size_t module;
    const syntax::variable* source;
    std::uint32_t index;
  };

  void number_functions();
  void number_variables();
  void number_variable(std::size_t module, const syntax::variable& v);
  void define_variable(std::size_t module, const syntax::variable& v, variable_symbol symbol);
  variable_symbol add_device_variable(std::size_t module, const syntax::variable& v);
  variable_symbol place_common_shared(const syntax::variable& v);
  void resolve_externals();
  void survey_functions();
  void survey_operand(pending_function& f, const syntax::operand& o);
  bool reaches_common_shared(std::uint32_t function) const;
  void fill_initial(const pending_initial& pending);
  void add_address(const pending_initial& pending, const syntax::initial_value& value,
                   std::uint64_t offset, variable_info& into);
  void add_kernel(std::uint32_t function);

  std::vector<syntax::module> modules_;
  std::vector<module_names> names_;
  std::unordered_map<std::string_view, variable_symbol> global_variables_;
  std::unordered_map<std::string_view, function_reference> global_functions_;
  std::vector<pending_function> functions_;  // beside the program's functions
  std::vector<pending_initial> initials_;
  std::unordered_map<const syntax::variable*, variable_symbol> function_shared_;
  std::set<std::string> variable_names_;
  std::uint32_t common_shared_bytes_ = 0;  // shared variables that no single entry owns
  std::uint32_t dynamic_align_ = 16;
  std::unordered_map<std::uint64_t, std::uint32_t> words_, quads_;  // constants by value
  std::shared_ptr<compiled_program> program_;
};

}  // namespace gpuwire::softgpu::ptx
