// SPDX-License-Identifier: Apache-2.0
// The builder's operand half: registers, immediates, addresses and special registers become
// instruction operands.
#include <bit>
#include <utility>

#include "linker.hpp"

namespace gpuwire::softgpu::ptx {

using syntax::operand;

namespace {

std::string describe(const operand& o) {
  if (o.kind == operand::form::name || o.kind == operand::form::sink)
    return o.kind == operand::form::sink ? "_" : std::string(o.name);
  return "operand";
}

std::optional<std::uint32_t> component_index(std::string_view component) {
  if (component == "x" || component == "r") return 0;
  if (component == "y" || component == "g") return 1;
  if (component == "z" || component == "b") return 2;
  if (component == "w" || component == "a") return 3;
  return std::nullopt;
}

// An immediate as bits of type t: PTX literals are 64-bit integers, or floats that take the
// instruction's type.
std::uint64_t immediate_bits(const operand& o, type t) {
  if (o.kind == operand::form::integer) {
    if (t == type::f32)
      return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int64_t>(o.bits)));
    if (t == type::f64)
      return std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(o.bits)));
    return o.bits;
  }
  if (o.kind == operand::form::f32) {
    if (t != type::f64) return o.bits;
    const double wide = std::bit_cast<float>(static_cast<std::uint32_t>(o.bits));
    return std::bit_cast<std::uint64_t>(wide);
  }
  if (bytes_of(t) == 8) return o.bits;
  return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(o.bits)));
}

}  // namespace

std::uint32_t builder::constant(type t, std::uint64_t bits) {
  return link_.constant(t, bits);
}

std::uint32_t builder::temporary(type t) {
  return new_register(t, true);
}

std::uint32_t builder::adapt_source(std::uint32_t from, type declared, type wanted) {
  if (lane_bytes(declared) == lane_bytes(wanted)) return from;
  if (lane_bytes(declared) < lane_bytes(wanted))
    fail_syntax(line_, "register of type ." + std::string(name_of(declared)) +
                           " is too narrow for ." + std::string(name_of(wanted)));
  const std::uint32_t narrow = temporary(wanted);
  const bool guarded = std::exchange(guarded_output_, false);
  emit(narrowing_move(), {narrow}, {from});
  guarded_output_ = guarded;
  return narrow;
}

std::uint32_t builder::address_of(const operand& o, type t) {
  const auto addend = o.addend;
  if (const variable_symbol* v = find_variable(o.name)) {
    switch (v->where) {
      case variable_symbol::place::shared:
      case variable_symbol::place::parameter:
      case variable_symbol::place::argument:
        return constant(t, v->offset + static_cast<std::uint64_t>(addend));
      default:
        break;
    }
    const variable_symbol symbol = *v;
    const std::uint32_t address = temporary(t);
    const bool guarded = std::exchange(guarded_output_, false);
    instruction& i = emit(address_move(symbol.where, t), {address}, {});
    guarded_output_ = guarded;
    i.target = symbol.index;
    i.immediate = static_cast<std::int64_t>(symbol.offset) + addend;
    return address;
  }
  if (const auto f = link_.find_function(module_, o.name)) {
    if (f->system != system_call::none)
      fail_syntax(line_, "the address of '" + std::string(o.name) + "' cannot be taken");
    return constant(t, function_window + std::uint64_t{f->index} * 16);
  }
  if (link_.is_declared_function(module_, o.name))
    fail(compile_error_kind::unresolved_symbol, line_,
         "unresolved function '" + std::string(o.name) + "'");
  fail_syntax(line_, "unknown symbol '" + std::string(o.name) + "'");
}

std::uint32_t builder::special(const operand& o, type t) {
  type kind = type::u32;
  const handler read = special_register(o.name, o.component, kind);
  if (read == nullptr) return address_of(o, t);
  const std::uint32_t value = temporary(kind);
  const bool guarded = std::exchange(guarded_output_, false);
  emit(read, {value}, {});
  guarded_output_ = guarded;
  if (lane_bytes(kind) < lane_bytes(t)) {
    const std::uint32_t wide = temporary(t);
    guarded_output_ = false;
    emit(widening_move(type::b64, type::u32), {wide}, {value});
    guarded_output_ = guarded;
    return wide;
  }
  return adapt_source(value, kind, t);
}

std::uint32_t builder::source(const operand& o, type t) {
  if (t == type::pred) return predicate_source(o);
  if (is_immediate(o)) return constant(t, immediate_bits(o, t));
  if (o.kind == operand::form::vector && o.items.size() == 1) return source(o.items[0], t);
  if (o.kind != operand::form::name) fail_syntax(line_, "expected a register or number");
  const register_symbol* r = find_register(o);
  if (r == nullptr) return special(o, t);
  std::uint32_t index = r->first;
  if (!o.component.empty()) {
    const auto c = component_index(o.component);
    if (!c || *c >= r->vector_width) fail_syntax(line_, "no such component of " + describe(o));
    index += *c << 1;
  }
  if (r->kind == type::pred) fail_syntax(line_, "predicate " + describe(o) + " as a number");
  return adapt_source(index, r->kind, t);
}

std::uint32_t builder::destination(const operand& o, type t) {
  if (o.kind == operand::form::sink) return temporary(t);
  if (o.kind == operand::form::vector && o.items.size() == 1) return destination(o.items[0], t);
  const register_symbol* r = find_register(o);
  if (r == nullptr) fail_syntax(line_, "unknown register '" + describe(o) + "'");
  std::uint32_t index = r->first;
  if (!o.component.empty()) {
    const auto c = component_index(o.component);
    if (!c || *c >= r->vector_width) fail_syntax(line_, "no such component of " + describe(o));
    index += *c << 1;
  }
  if ((r->kind == type::pred) != (t == type::pred))
    fail_syntax(line_, "register " + describe(o) + " is of the wrong kind");
  if (t == type::pred || lane_bytes(r->kind) == lane_bytes(t)) return index;
  if (lane_bytes(r->kind) < lane_bytes(t))
    fail_syntax(line_,
                "register " + describe(o) + " is too narrow for ." + std::string(name_of(t)));
  const std::uint32_t narrow = temporary(t);
  after_.push_back({index, narrow, r->kind, t});
  return narrow;
}

std::uint32_t builder::predicate_source(const operand& o) {
  if (o.kind == operand::form::integer) return link_.constant(type::pred, o.bits != 0 ? ~0ull : 0);
  const register_symbol* r = find_register(o);
  if (r == nullptr || r->kind != type::pred)
    fail_syntax(line_, "unknown predicate '" + describe(o) + "'");
  if (!o.negated) return r->first;
  const std::uint32_t inverted = temporary(type::pred);
  const std::uint32_t from = r->first;
  const bool guarded = std::exchange(guarded_output_, false);
  emit(predicate_inversion(), {inverted}, {from});
  guarded_output_ = guarded;
  return inverted;
}

std::vector<std::uint32_t> builder::sources(const operand& o, type t, std::size_t count) {
  std::vector<std::uint32_t> result;
  const register_symbol* r = find_register(o);
  if (t == type::b128) {
    if (count != 1 || r == nullptr || r->kind != type::b128)
      fail_syntax(line_, "expected a .b128 register");
    return {r->first, r->first + 2};
  }
  if (r != nullptr && r->vector_width == count && count > 1) {
    for (std::uint32_t n = 0; n < count; ++n) result.push_back(r->first + (n << 1));
    return result;
  }
  if (o.kind != operand::form::vector) {
    if (count != 1) fail_syntax(line_, "expected a vector of " + std::to_string(count));
    return {source(o, t)};
  }
  if (o.items.size() != count) fail_syntax(line_, "expected a vector of " + std::to_string(count));
  for (const operand& item : o.items) result.push_back(source(item, t));
  return result;
}

std::vector<std::uint32_t> builder::destinations(const operand& o, type t, std::size_t count) {
  std::vector<std::uint32_t> result;
  const register_symbol* r = find_register(o);
  if (t == type::b128) {
    if (count != 1 || r == nullptr || r->kind != type::b128)
      fail_syntax(line_, "expected a .b128 register");
    return {r->first, r->first + 2};
  }
  if (r != nullptr && r->vector_width == count && count > 1) {
    for (std::uint32_t n = 0; n < count; ++n) result.push_back(r->first + (n << 1));
    return result;
  }
  if (o.kind != operand::form::vector) {
    if (count != 1) fail_syntax(line_, "expected a vector of " + std::to_string(count));
    return {destination(o, t)};
  }
  if (o.items.size() != count) fail_syntax(line_, "expected a vector of " + std::to_string(count));
  for (const operand& item : o.items) result.push_back(destination(item, t));
  return result;
}

}  // namespace gpuwire::softgpu::ptx
