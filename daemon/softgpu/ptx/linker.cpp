// SPDX-License-Identifier: Apache-2.0
#include "linker.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gpuwire::softgpu::ptx {

using linkage = syntax::variable::linkage;
using space = syntax::variable::space;
using place = variable_symbol::place;

namespace {

std::uint32_t align_up(std::uint32_t value, std::uint32_t align) {
  return (value + align - 1) / align * align;
}

bool seen_from_outside(linkage link) {
  return link == linkage::visible || link == linkage::weak || link == linkage::common;
}

system_call system_call_named(std::string_view name) {
  if (name == "vprintf") return system_call::print;
  if (name == "__assertfail") return system_call::assertion_failed;
  if (name == "malloc") return system_call::allocate;
  if (name == "free") return system_call::free;
  if (name == "cudaGraphSetConditional") return system_call::set_condition;
  return system_call::none;
}

}  // namespace

std::shared_ptr<const program> linker::run() {
  program_ = std::make_shared<compiled_program>();
  program_->constants_.resize(warp_lanes * 8);  // offset 0: zero in every width
  words_.emplace(0, 0);
  quads_.emplace(0, 0);
  names_.resize(modules_.size());
  number_functions();
  number_variables();
  resolve_externals();
  survey_functions();
  for (const auto& pending : initials_) fill_initial(pending);
  for (std::size_t i = 0; i < functions_.size(); ++i)
    builder(*this, *functions_[i].source, functions_[i].module, program_->functions_[i]).run();
  for (std::uint32_t i = 0; i < functions_.size(); ++i)
    if (functions_[i].source->entry) add_kernel(i);
  return program_;
}

void linker::number_functions() {
  for (std::size_t m = 0; m < modules_.size(); ++m) {
    for (const syntax::function& f : modules_[m].functions) {
      if (!f.has_body) continue;
      const bool global = f.entry || seen_from_outside(f.link);
      if (global && global_functions_.contains(f.name)) {
        if (f.link != linkage::weak && m > 0 && !f.entry)
          fail_syntax(f.line, "function '" + std::string(f.name) + "' is defined twice");
        names_[m].functions[f.name] = global_functions_[f.name];
        continue;
      }
      function_reference reference;
      reference.index = static_cast<std::uint32_t>(functions_.size());
      reference.source = &f;
      if (!names_[m].functions.emplace(f.name, reference).second)
        fail_syntax(f.line, "function '" + std::string(f.name) + "' is defined twice");
      if (global) global_functions_.emplace(f.name, reference);
      functions_.push_back({m, &f, {}, false, false, 0});
    }
  }
  program_->functions_.resize(functions_.size());
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    program_->functions_[i].name = functions_[i].source->name;
    program_->functions_[i].entry = functions_[i].source->entry;
  }
}

void linker::number_variables() {
  for (std::size_t m = 0; m < modules_.size(); ++m) {
    for (const syntax::variable& v : modules_[m].variables) number_variable(m, v);
    for (const syntax::function& f : modules_[m].functions) {
      for (const syntax::variable& v : f.variables) {
        if (v.where != space::shared) continue;
        if (v.elements == 0) dynamic_align_ = std::max(dynamic_align_, v.alignment());
        if (v.elements != 0 && !f.entry) function_shared_[&v] = place_common_shared(v);
      }
    }
  }
}

void linker::number_variable(std::size_t module, const syntax::variable& v) {
  if (v.where == space::shared) {
    if (v.elements == 0) {
      dynamic_align_ = std::max(dynamic_align_, v.alignment());
      names_[module].variables[v.name] = {place::shared_dynamic, 0, 0, 0, false};
    } else if (v.link != linkage::external) {
      define_variable(module, v, place_common_shared(v));
    }
    return;
  }
  if (v.where != space::global && v.where != space::constant)
    fail_syntax(v.line, "variable '" + std::string(v.name) + "' outside a function");
  if (v.link == linkage::external) return;
  const bool shareable = v.link == linkage::weak || v.link == linkage::common;
  if (const auto other = global_variables_.find(v.name); other != global_variables_.end()) {
    if (!shareable && seen_from_outside(v.link))
      fail_syntax(v.line, "variable '" + std::string(v.name) + "' is defined twice");
    if (shareable) {
      names_[module].variables[v.name] = other->second;
      return;
    }
  }
  define_variable(module, v, add_device_variable(module, v));
}

void linker::define_variable(std::size_t module, const syntax::variable& v,
                             variable_symbol symbol) {
  if (!names_[module].variables.emplace(v.name, symbol).second)
    fail_syntax(v.line, "variable '" + std::string(v.name) + "' is defined twice");
  if (seen_from_outside(v.link)) global_variables_.emplace(v.name, symbol);
}

variable_symbol linker::add_device_variable(std::size_t module, const syntax::variable& v) {
  variable_info info;
  info.name = v.name;
  while (!variable_names_.insert(info.name).second) info.name += "$" + std::to_string(module);
  info.constant = v.where == space::constant;
  info.managed = v.managed;
  info.visible = seen_from_outside(v.link);
  info.bytes = v.bytes();
  info.align = v.alignment();
  variable_symbol symbol;
  symbol.where = place::device;
  symbol.index = static_cast<std::uint32_t>(program_->variables_.size());
  symbol.bytes = static_cast<std::uint32_t>(info.bytes);
  symbol.constant = info.constant;
  program_->variables_.push_back(std::move(info));
  if (v.has_initial) initials_.push_back({module, &v, symbol.index});
  return symbol;
}

variable_symbol linker::place_common_shared(const syntax::variable& v) {
  variable_symbol symbol;
  symbol.where = place::shared;
  symbol.offset = align_up(common_shared_bytes_, v.alignment());
  symbol.bytes = static_cast<std::uint32_t>(v.bytes());
  common_shared_bytes_ = symbol.offset + symbol.bytes;
  return symbol;
}

variable_symbol linker::place_in_function(const builder& b, const syntax::variable& v) {
  if (v.where != space::shared) {
    const auto symbol = add_device_variable(b.module(), v);
    if (v.has_initial) {
      const pending_initial pending = initials_.back();
      fill_initial(pending);
    }
    return symbol;
  }
  if (v.elements == 0) return {place::shared_dynamic, 0, 0, 0, false};
  if (const auto common = function_shared_.find(&v); common != function_shared_.end())
    return common->second;
  const auto index = static_cast<std::uint32_t>(&b.target() - program_->functions_.data());
  auto& own = functions_[index].own_shared_bytes;
  if (own == 0 && reaches_common_shared(index)) own = common_shared_bytes_;
  variable_symbol symbol;
  symbol.where = place::shared;
  symbol.offset = align_up(own, v.alignment());
  symbol.bytes = static_cast<std::uint32_t>(v.bytes());
  own = symbol.offset + symbol.bytes;
  return symbol;
}

// Declarations without a definition in their module take another module's, or belong to the system,
// or are missing.
void linker::resolve_externals() {
  for (std::size_t m = 0; m < modules_.size(); ++m) {
    module_names& names = names_[m];
    for (const syntax::function& f : modules_[m].functions) {
      if (f.has_body || names.functions.contains(f.name)) continue;
      if (const auto found = global_functions_.find(f.name); found != global_functions_.end()) {
        names.functions.emplace(f.name, found->second);
      } else if (const auto system = system_call_named(f.name); system != system_call::none) {
        names.functions.emplace(f.name, function_reference{0, system, &f});
      } else {
        names.missing_functions.insert(f.name);
      }
    }
    for (const syntax::variable& v : modules_[m].variables) {
      if (v.link != linkage::external || names.variables.contains(v.name)) continue;
      if (const auto found = global_variables_.find(v.name); found != global_variables_.end())
        names.variables.emplace(v.name, found->second);
      else
        names.missing_variables.insert(v.name);
    }
  }
}

void linker::survey_operand(pending_function& f, const syntax::operand& o) {
  if (o.kind == syntax::operand::form::name) {
    const auto& names = names_[f.module];
    if (const auto callee = names.functions.find(o.name);
        callee != names.functions.end() && callee->second.system == system_call::none)
      f.callees.insert(callee->second.index);
    if (const auto v = names.variables.find(o.name);
        v != names.variables.end() && v->second.where == place::shared)
      f.names_common_shared = true;
  }
  for (const auto& item : o.items) survey_operand(f, item);
}

void linker::survey_functions() {
  for (pending_function& f : functions_) {
    f.calls_indirectly = !f.source->prototypes.empty();
    for (const syntax::variable& v : f.source->variables)
      if (function_shared_.contains(&v)) f.names_common_shared = true;
    for (const syntax::statement& s : f.source->body)
      for (const auto& o : s.operands) survey_operand(f, o);
  }
}

bool linker::reaches_common_shared(std::uint32_t function) const {
  std::set<std::uint32_t> seen{function};
  std::vector<std::uint32_t> open{function};
  while (!open.empty()) {
    const pending_function& f = functions_[open.back()];
    open.pop_back();
    if (f.names_common_shared || f.calls_indirectly) return common_shared_bytes_ > 0;
    for (const auto callee : f.callees)
      if (seen.insert(callee).second) open.push_back(callee);
  }
  return false;
}

std::optional<linker::function_reference> linker::find_function(std::size_t module,
                                                                std::string_view name) const {
  const auto& functions = names_[module].functions;
  const auto found = functions.find(name);
  return found != functions.end() ? std::optional(found->second) : std::nullopt;
}

bool linker::is_declared_function(std::size_t module, std::string_view name) const {
  return names_[module].missing_functions.contains(name);
}

std::optional<variable_symbol> linker::find_variable(std::size_t module,
                                                     std::string_view name) const {
  const auto& variables = names_[module].variables;
  if (const auto found = variables.find(name); found != variables.end()) return found->second;
  if (names_[module].missing_variables.contains(name))
    throw compile_failure{
        {compile_error_kind::unresolved_symbol, "unresolved variable '" + std::string(name) + "'"}};
  return std::nullopt;
}

std::uint32_t linker::constant(type t, std::uint64_t bits) {
  const bool wide = t != type::pred && lane_bytes(t) == 8;
  if (!wide) bits &= 0xFFFF'FFFF;
  auto& known = wide ? quads_ : words_;
  const auto [entry, fresh] =
      known.emplace(bits, static_cast<std::uint32_t>(program_->constants_.size()));
  if (fresh) {
    auto& pool = program_->constants_;
    const std::size_t size = wide ? 8 : 4;
    const std::size_t first = pool.size();
    pool.resize(first + warp_lanes * size);
    for (std::size_t lane = 0; lane < warp_lanes; ++lane)
      std::memcpy(pool.data() + first + lane * size, &bits, size);
  }
  return entry->second | constant_tag;
}

void linker::fill_initial(const pending_initial& pending) {
  const syntax::variable& v = *pending.source;
  variable_info& info = program_->variables_[pending.index];
  const std::uint64_t element = bytes_of(v.element);
  for (const syntax::initial_value& value : v.initial) {
    const std::uint64_t offset = value.position * element;
    if (value.kind == syntax::operand::form::name) {
      add_address(pending, value, offset, info);
      continue;
    }
    if (info.initial.size() < offset + element) info.initial.resize(offset + element);
    std::uint64_t bits = value.bits;
    const bool from_double = value.kind == syntax::operand::form::f64;
    if (v.element == type::f32 && from_double)
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    if (v.element == type::f64 && value.kind == syntax::operand::form::f32)
      bits = std::bit_cast<std::uint64_t>(
          static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
    std::memcpy(info.initial.data() + offset, &bits, std::min<std::uint64_t>(element, 8));
  }
}

void linker::add_address(const pending_initial& pending, const syntax::initial_value& value,
                         std::uint64_t offset, variable_info& into) {
  const std::string name(value.name);
  std::uint32_t byte = 0;  // with a byte mask: which byte of the address this element is
  if (value.byte_mask != 0)
    byte = static_cast<std::uint32_t>(std::countr_zero(value.byte_mask)) / 8;
  const std::uint64_t width = value.byte_mask != 0 ? 1 : 8;
  if (value.byte_mask == 0 && bytes_of(pending.source->element) != 8)
    fail_syntax(pending.source->line, "address of '" + name + "' in a narrow element");
  if (into.initial.size() < offset + width) into.initial.resize(offset + width);

  std::uint64_t fixed = 0;
  if (const auto symbol = find_variable(pending.module, value.name)) {
    if (symbol->where == place::device) {
      if (byte == 0)
        into.relocations.push_back(
            {offset, program_->variables_[symbol->index].name, value.addend, value.generic});
      return;
    }
    fixed = symbol->offset + (value.generic ? shared_window : 0);
  } else if (const auto f = find_function(pending.module, value.name)) {
    fixed = function_window + std::uint64_t{f->index} * 16;
  } else {
    fail(compile_error_kind::unresolved_symbol, pending.source->line,
         "unresolved symbol '" + name + "'");
  }
  fixed += static_cast<std::uint64_t>(value.addend);
  const std::uint64_t shifted = fixed >> (byte * 8);
  std::memcpy(into.initial.data() + offset, &shifted, width);
}

void linker::add_kernel(std::uint32_t function) {
  const syntax::function& source = *functions_[function].source;
  const function_code& code = program_->functions_[function];
  kernel_info info;
  info.name = code.name;
  for (std::size_t i = 0; i < source.parameters.size(); ++i) {
    const slice& s = code.parameters[i];
    info.parameters.push_back({std::string(source.parameters[i].name), s.offset, s.bytes,
                               source.parameters[i].alignment()});
    info.parameter_bytes = s.offset + s.bytes;
  }
  info.static_shared_bytes = functions_[function].own_shared_bytes;
  if (info.static_shared_bytes == 0 && reaches_common_shared(function))
    info.static_shared_bytes = common_shared_bytes_;
  info.local_bytes = code.local_bytes;
  info.target = modules_[functions_[function].module].target;
  info.required_cluster = {source.cluster[0], source.cluster[1], source.cluster[2]};
  if (source.threads_max != 0) info.threads_per_block_max = source.threads_max;
  // What is alive at once, within what any launch of up to 1024 threads has registers for.
  info.register_count = std::clamp(code.register_bytes / (warp_lanes * 4) + 8, 16u, 64u);
  program_->kernel_functions_.push_back(function);
  program_->dynamic_shared_offsets_.push_back(align_up(info.static_shared_bytes, dynamic_align_));
  program_->kernels_.push_back(std::move(info));
}

}  // namespace gpuwire::softgpu::ptx
