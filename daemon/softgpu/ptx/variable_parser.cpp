// SPDX-License-Identifier: Apache-2.0
#include "variable_parser.hpp"

#include <algorithm>
#include <span>

namespace gpuwire::softgpu::ptx {
namespace {

using syntax::initial_value;
using syntax::variable;

variable::space take_space(token_stream& tokens) {
  if (tokens.take_dot("global")) return variable::space::global;
  if (tokens.take_dot("const")) return variable::space::constant;
  if (tokens.take_dot("shared")) return variable::space::shared;
  if (tokens.take_dot("local")) return variable::space::local;
  if (tokens.take_dot("param")) return variable::space::parameter;
  tokens.fail_here("expected a state space");
}

std::uint32_t take_vector(token_stream& tokens) {
  if (tokens.take_dot("v2")) return 2;
  if (tokens.take_dot("v4")) return 4;
  if (tokens.take_dot("v8")) return 8;
  return 1;
}

type take_type(token_stream& tokens) {
  const token& t = tokens.peek();
  const auto found = t.kind == token_kind::dot_word ? parse_type(t.text) : std::nullopt;
  if (!found) tokens.fail_here("expected a type");
  tokens.take();
  return *found;
}

// What stands between the space and the name, in any order.
void take_attributes(token_stream& tokens, variable& v) {
  for (;;) {
    const token& t = tokens.peek();
    if (t.kind != token_kind::dot_word) return;
    if (t.text == "attribute") {
      v.managed |= skip_attribute(tokens);
    } else if (tokens.take_dot("align")) {
      const auto align = tokens.expect_integer();
      if (align == 0 || (align & (align - 1)) != 0 || align > 1u << 20)
        tokens.fail_here("alignment is no power of two");
      v.align = static_cast<std::uint32_t>(align);
    } else if (t.text == "v2" || t.text == "v4" || t.text == "v8") {
      v.vector_width = take_vector(tokens);
    } else if (tokens.take_dot("ptr")) {
      // The pointee's space and alignment are hints: .ptr .global .align 4.
      while (tokens.take_dot("global") || tokens.take_dot("const") || tokens.take_dot("shared") ||
             tokens.take_dot("local")) {
      }
      if (tokens.take_dot("align")) tokens.expect_integer();
    } else {
      v.element = take_type(tokens);
    }
  }
}

std::vector<std::uint64_t> take_dimensions(token_stream& tokens, variable& v) {
  std::vector<std::uint64_t> sizes;
  while (tokens.take_mark('[')) {
    if (tokens.take_mark(']')) {
      v.elements = 0;
      sizes.push_back(0);
      continue;
    }
    const auto size = tokens.constant().bits;
    if (size != 0 && v.elements > (1ull << 40) / size) tokens.fail_here("array too large");
    v.elements *= size;
    sizes.push_back(size);
    tokens.expect_mark(']');
  }
  return sizes;
}

initial_value take_name_value(token_stream& tokens) {
  initial_value value;
  value.kind = syntax::operand::form::name;
  if (tokens.peek().is(token_kind::word, "generic") && tokens.peek(1).is_mark('(')) {
    tokens.take();
    tokens.take();
    value = take_name_value(tokens);
    value.generic = true;
    tokens.expect_mark(')');
  } else {
    value.name = tokens.expect_word();
  }
  if (tokens.take_mark('+'))
    value.addend += static_cast<std::int64_t>(tokens.constant().bits);
  else if (tokens.peek().is_mark('-'))
    value.addend += static_cast<std::int64_t>(tokens.constant().bits);
  return value;
}

// One element: a number, an address, or the selected bytes of an address, 0xFF00(name).
initial_value take_value(token_stream& tokens) {
  if (tokens.peek().kind == token_kind::word && tokens.peek().text != "WARP_SZ")
    return take_name_value(tokens);
  if (tokens.peek().kind == token_kind::number && tokens.peek(1).is_mark('(')) {
    const auto mask = tokens.expect_integer();
    tokens.expect_mark('(');
    initial_value value = take_name_value(tokens);
    tokens.expect_mark(')');
    value.byte_mask = mask;
    return value;
  }
  const syntax::operand number = tokens.constant();
  initial_value value;
  value.kind = number.kind;
  value.bits = number.bits;
  return value;
}

// The values of an array within braces; those of an inner array begin where its dimension says.
void take_list(token_stream& tokens, variable& v, std::size_t& position,
               std::span<const std::uint64_t> sizes) {
  if (!tokens.take_mark('{')) {
    v.initial.push_back(take_value(tokens));
    v.initial.back().position = position++;
    return;
  }
  std::uint64_t inner = v.vector_width;
  for (std::size_t n = 1; n < sizes.size(); ++n) inner *= sizes[n];
  while (!tokens.take_mark('}')) {
    const std::size_t start = position;
    const bool nested = tokens.peek().is_mark('{');
    take_list(tokens, v, position, sizes.empty() ? sizes : sizes.subspan(1));
    if (nested) position = std::max(position, start + inner);
    if (!tokens.peek().is_mark('}')) tokens.expect_mark(',');
  }
}

}  // namespace

bool skip_attribute(token_stream& tokens) {
  if (!tokens.take_dot("attribute")) return false;
  tokens.expect_mark('(');
  bool managed = false;
  for (std::uint32_t depth = 1; depth > 0;) {
    if (tokens.at_end()) tokens.fail_here("expected ')'");
    if (tokens.peek().is(token_kind::dot_word, "managed")) managed = true;
    if (tokens.peek().is_mark('(')) ++depth;
    if (tokens.peek().is_mark(')')) --depth;
    tokens.take();
  }
  return managed;
}

std::vector<variable> parse_parameters(token_stream& tokens) {
  std::vector<variable> result;
  if (!tokens.take_mark('(')) return result;
  while (!tokens.take_mark(')')) {
    variable v;
    v.where = variable::space::parameter;
    v.line = tokens.line();
    if (!tokens.take_dot("param")) tokens.fail_here("expected .param");
    take_attributes(tokens, v);
    v.name = tokens.expect_word();
    take_dimensions(tokens, v);
    result.push_back(std::move(v));
    if (!tokens.peek().is_mark(')')) tokens.expect_mark(',');
  }
  return result;
}

void parse_variables(token_stream& tokens, variable::linkage link, std::vector<variable>& into) {
  variable shape;
  shape.link = link;
  shape.where = take_space(tokens);
  take_attributes(tokens, shape);
  do {
    variable v = shape;
    v.line = tokens.line();
    v.name = tokens.expect_word();
    const auto sizes = take_dimensions(tokens, v);
    if (tokens.take_mark('=')) {
      v.has_initial = true;
      std::size_t position = 0;
      take_list(tokens, v, position, sizes);
      // The size of an array declared with [] is that of its initialiser.
      if (v.elements == 0) v.elements = (position + v.vector_width - 1) / v.vector_width;
      if (position > v.elements * v.vector_width)
        fail_syntax(v.line, "too many initial values for '" + std::string(v.name) + "'");
    }
    into.push_back(std::move(v));
  } while (tokens.take_mark(','));
  tokens.expect_mark(';');
}

void parse_registers(token_stream& tokens, std::vector<syntax::register_declaration>& into) {
  syntax::register_declaration shape;
  shape.vector_width = take_vector(tokens);
  shape.kind = take_type(tokens);
  do {
    syntax::register_declaration r = shape;
    r.name = tokens.expect_word();
    if (tokens.take_mark('<')) {
      r.count = static_cast<std::uint32_t>(tokens.expect_integer());
      tokens.expect_mark('>');
    }
    into.push_back(r);
  } while (tokens.take_mark(','));
  tokens.expect_mark(';');
}

}  // namespace gpuwire::softgpu::ptx
