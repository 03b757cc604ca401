// SPDX-License-Identifier: Apache-2.0
#include "builder.hpp"

#include <charconv>

#include "linker.hpp"

namespace gpuwire::softgpu::ptx {

using syntax::operand;
using syntax::statement;

namespace {

std::uint32_t align_up(std::uint32_t value, std::uint32_t align) {
  return (value + align - 1) / align * align;
}

// %r12 of ".reg .b32 %r<20>" is the prefix %r with the number 12.
std::optional<std::pair<std::string_view, std::uint32_t>> split_number(std::string_view name) {
  std::size_t first = name.size();
  while (first > 0 && name[first - 1] >= '0' && name[first - 1] <= '9') --first;
  if (first == name.size()) return std::nullopt;
  if (name[first] == '0' && first + 1 < name.size()) return std::nullopt;
  std::uint32_t number = 0;
  if (std::from_chars(name.data() + first, name.data() + name.size(), number).ec != std::errc{})
    return std::nullopt;
  return std::pair{name.substr(0, first), number};
}

}  // namespace

builder::builder(linker& link, const syntax::function& source, std::size_t module,
                 function_code& target)
    : link_(link), source_(source), module_(module), target_(target) {}

void builder::run() {
  find_labels();
  scope_ = 0;
  scopes_opened_ = 1;
  declare_formals();
  for (const statement& s : source_.body) {
    line_ = s.line;
    translate(s);
  }
  // Running off the end of a function returns, and gives every label an instruction to point to.
  statement end;
  end.line = line_;
  end.name = "ret";
  decode(*this, end);
  resolve_labels();
  reorder_blocks(*this);
  assign_registers(*this);
}

void builder::find_labels() {
  scopes_.emplace_back();
  std::size_t current = 0;
  for (const statement& s : source_.body) {
    if (s.kind == statement::form::scope_begin) {
      scopes_.emplace_back();
      scopes_.back().parent = current;
      current = scopes_.size() - 1;
    } else if (s.kind == statement::form::scope_end) {
      current = scopes_[current].parent;
    } else if (s.kind == statement::form::label) {
      const auto id = static_cast<std::uint32_t>(label_places_.size());
      label_places_.push_back(0);
      if (!scopes_[current].labels.emplace(s.name, id).second)
        fail_syntax(s.line, "label '" + std::string(s.name) + "' is defined twice");
    } else if (s.kind == statement::form::branch_targets ||
               s.kind == statement::form::call_targets ||
               s.kind == statement::form::call_prototype) {
      scopes_[current].tables.emplace(s.name, &s);
    }
  }
}

void builder::declare_formals() {
  scope& top = scopes_[0];
  const auto place = [&](const syntax::variable& v, std::uint32_t& at, bool argument) {
    variable_symbol symbol;
    symbol.where = argument ? variable_symbol::place::argument : variable_symbol::place::parameter;
    at = align_up(at, v.alignment());
    symbol.offset = at;
    symbol.bytes = static_cast<std::uint32_t>(v.bytes());
    at += symbol.bytes;
    top.variables.emplace(v.name, symbol);
    return slice{symbol.offset, symbol.bytes};
  };
  std::uint32_t arguments = 0;
  for (const auto& v : source_.returns)
    target_.results.push_back(place(v, top.parameter_top, false));
  for (const auto& v : source_.parameters)
    target_.parameters.push_back(
        place(v, source_.entry ? arguments : top.parameter_top, source_.entry));
  target_.parameter_bytes = top.parameter_top;
}

std::uint32_t builder::new_register(type t, bool temporary) {
  virtual_register r;
  r.temporary = temporary;
  r.declared = t;
  r.width = t == type::pred      ? register_class::predicate
            : lane_bytes(t) == 8 ? register_class::quad
                                 : register_class::word;
  registers_.push_back(r);
  return static_cast<std::uint32_t>(registers_.size() - 1) << 1;
}

void builder::declare_registers(const syntax::register_declaration& d) {
  if (d.count) {
    scopes_[scope_].prefixes.emplace_back(d.name, &d);
    return;
  }
  register_symbol symbol{0, d.vector_width, d.kind};
  const std::uint32_t pieces = d.vector_width * (d.kind == type::b128 ? 2 : 1);
  for (std::uint32_t i = 0; i < pieces; ++i) {
    const auto made = new_register(d.kind == type::b128 ? type::b64 : d.kind, false);
    if (i == 0) symbol.first = made;
  }
  scopes_[scope_].registers[d.name] = symbol;
}

void builder::declare_variable(const syntax::variable& v) {
  scope& here = scopes_[scope_];
  variable_symbol symbol;
  symbol.bytes = static_cast<std::uint32_t>(v.bytes());
  switch (v.where) {
    case syntax::variable::space::parameter: {
      here.parameter_top = align_up(here.parameter_top, v.alignment());
      symbol.where = variable_symbol::place::parameter;
      symbol.offset = here.parameter_top;
      here.parameter_top += symbol.bytes;
      target_.parameter_bytes = std::max(target_.parameter_bytes, here.parameter_top);
      break;
    }
    case syntax::variable::space::local:
      target_.local_bytes = align_up(target_.local_bytes, v.alignment());
      symbol.where = variable_symbol::place::local;
      symbol.offset = target_.local_bytes;
      target_.local_bytes += symbol.bytes;
      break;
    case syntax::variable::space::shared:
    case syntax::variable::space::global:
    case syntax::variable::space::constant:
      symbol = link_.place_in_function(*this, v);
      break;
  }
  here.variables[v.name] = symbol;
}

void builder::translate(const statement& s) {
  switch (s.kind) {
    case statement::form::scope_begin: {
      const std::size_t inner = scopes_opened_++;
      scopes_[inner].parameter_top = scopes_[scope_].parameter_top;
      scope_ = inner;
      break;
    }
    case statement::form::scope_end:
      scope_ = scopes_[scope_].parent;
      break;
    case statement::form::label:
      label_places_[scopes_[scope_].labels.at(s.name)] =
          static_cast<std::uint32_t>(target_.instructions.size());
      break;
    case statement::form::registers:
      declare_registers(source_.registers[s.index]);
      break;
    case statement::form::variable:
      declare_variable(source_.variables[s.index]);
      break;
    case statement::form::branch_targets:
    case statement::form::call_targets:
    case statement::form::call_prototype:
      break;
    case statement::form::instruction: {
      guard_ = constant_tag;
      guard_flip_ = ~0u;
      if (!s.guard.name.empty()) {
        operand p;
        p.kind = operand::form::name;
        p.name = s.guard.name;
        guard_ = predicate_source(p);
        guard_flip_ = s.guard.negated ? ~0u : 0;
      }
      after_.clear();
      decode(*this, s);
      for (const widening& w : std::vector(after_))
        emit(widening_move(w.declared, w.written), {w.destination}, {w.source});
      guard_ = constant_tag;
      guard_flip_ = ~0u;
    }
  }
}

const register_symbol* builder::find_register(const operand& o) {
  if (o.kind != operand::form::name) return nullptr;
  for (std::size_t at = scope_;; at = scopes_[at].parent) {
    scope& here = scopes_[at];
    if (const auto found = here.registers.find(o.name); found != here.registers.end())
      return &found->second;
    if (const auto numbered = split_number(o.name); numbered && !here.prefixes.empty()) {
      for (const auto& [prefix, declaration] : here.prefixes) {
        if (prefix != numbered->first || numbered->second >= *declaration->count) continue;
        register_symbol symbol{0, 1, declaration->kind};
        const bool wide = declaration->kind == type::b128;
        symbol.first = new_register(wide ? type::b64 : declaration->kind, false);
        if (wide) new_register(type::b64, false);
        return &here.registers.emplace(o.name, symbol).first->second;
      }
    }
    if (at == 0) return nullptr;
  }
}

const variable_symbol* builder::find_variable(std::string_view name) {
  for (std::size_t at = scope_;; at = scopes_[at].parent) {
    const auto found = scopes_[at].variables.find(name);
    if (found != scopes_[at].variables.end()) return &found->second;
    if (at == 0) break;
  }
  if (const auto found = link_.find_variable(module_, name))
    return &(scopes_[0].variables[name] = *found);
  return nullptr;
}

std::optional<type> builder::declared_type(const operand& o) {
  const register_symbol* r = find_register(o);
  return r != nullptr ? std::optional(r->kind) : std::nullopt;
}

std::uint32_t builder::label_id(std::string_view name) {
  for (std::size_t at = scope_;; at = scopes_[at].parent) {
    const auto found = scopes_[at].labels.find(name);
    if (found != scopes_[at].labels.end()) return found->second;
    if (at == 0) fail_syntax(line_, "unknown label '" + std::string(name) + "'");
  }
}

void builder::target_label(instruction& i, std::string_view label) {
  label_uses_.emplace_back(static_cast<std::uint32_t>(&i - target_.instructions.data()),
                           label_id(label));
}

std::uint32_t builder::branch_table(std::string_view name) {
  for (std::size_t at = scope_;; at = scopes_[at].parent) {
    const auto found = scopes_[at].tables.find(name);
    if (found != scopes_[at].tables.end() &&
        found->second->kind == statement::form::branch_targets) {
      std::vector<std::uint32_t> table;
      for (const auto& label : found->second->targets) table.push_back(label_id(label));
      target_.branch_tables.push_back(std::move(table));
      return static_cast<std::uint32_t>(target_.branch_tables.size() - 1);
    }
    if (at == 0) fail_syntax(line_, "unknown branch table '" + std::string(name) + "'");
  }
}

const syntax::prototype* builder::find_prototype(std::string_view name) {
  for (std::size_t at = scope_;; at = scopes_[at].parent) {
    const auto found = scopes_[at].tables.find(name);
    if (found != scopes_[at].tables.end()) {
      if (found->second->kind != statement::form::call_prototype) return nullptr;
      return &source_.prototypes[found->second->index];
    }
    if (at == 0) return nullptr;
  }
}

std::uint32_t builder::reserve_parameter(std::uint32_t bytes, std::uint32_t align) {
  scope& here = scopes_[scope_];
  here.parameter_top = align_up(here.parameter_top, align);
  const auto offset = here.parameter_top;
  here.parameter_top += bytes;
  target_.parameter_bytes = std::max(target_.parameter_bytes, here.parameter_top);
  return offset;
}

void builder::resolve_labels() {
  for (const auto& [index, label] : label_uses_)
    target_.instructions[index].target = label_places_[label];
  for (auto& table : target_.branch_tables)
    for (auto& entry : table) entry = label_places_[entry];
}

instruction& builder::emit(handler run, std::span<const std::uint32_t> definitions,
                           std::span<const std::uint32_t> uses, flow kind) {
  if (definitions.size() + uses.size() > operand_count_max) fail_syntax(line_, "too many operands");
  instruction i;
  i.run = run;
  i.kind = kind;
  i.line = line_;
  i.guard = guarded_output_ ? guard_ : constant_tag;
  i.guard_flip = guarded_output_ ? guard_flip_ : ~0u;
  std::size_t n = 0;
  for (const auto o : definitions) i.o[n++] = o;
  for (const auto o : uses) i.o[n++] = o;
  target_.instructions.push_back(i);
  shapes_.push_back({static_cast<std::uint8_t>(definitions.size()), static_cast<std::uint8_t>(n)});
  for (; n < operand_count_max; ++n) target_.instructions.back().o[n] = constant_tag;
  return target_.instructions.back();
}

}  // namespace gpuwire::softgpu::ptx
