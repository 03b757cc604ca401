// SPDX-License-Identifier: Apache-2.0
#include "body_parser.hpp"

#include "variable_parser.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

using syntax::operand;
using syntax::statement;

class body_parser {
 public:
  body_parser(token_stream& tokens, syntax::function& into) : tokens_(tokens), into_(into) {}

  void run() {
    tokens_.expect_mark('{');
    for (std::uint32_t depth = 1;;) {
      if (tokens_.at_end()) tokens_.fail_here("expected '}'");
      if (tokens_.take_mark(';')) continue;
      if (tokens_.peek().is_mark('{')) {
        add(statement::form::scope_begin);
        tokens_.take();
        ++depth;
      } else if (tokens_.peek().is_mark('}')) {
        if (--depth > 0) add(statement::form::scope_end);
        tokens_.take();
        if (depth == 0) return;
      } else if (tokens_.peek().kind == token_kind::dot_word) {
        parse_directive();
      } else if (tokens_.peek().kind == token_kind::word && tokens_.peek(1).is_mark(':')) {
        parse_label();
      } else {
        parse_instruction();
      }
    }
  }

 private:
  statement& add(statement::form kind) {
    statement s;
    s.kind = kind;
    s.line = tokens_.line();
    into_.body.push_back(std::move(s));
    return into_.body.back();
  }

  void parse_directive() {
    const auto directive = tokens_.peek().text;
    if (directive == "loc" || directive == "file") return tokens_.skip_line();
    if (directive == "section") {
      while (!tokens_.at_end() && !tokens_.peek().is_mark('{')) tokens_.take();
      return tokens_.skip_braces();
    }
    if (directive == "pragma") {
      while (!tokens_.at_end() && !tokens_.take_mark(';')) tokens_.take();
      return;
    }
    if (tokens_.take_dot("reg")) {
      const auto first = into_.registers.size();
      parse_registers(tokens_, into_.registers);
      for (auto i = first; i < into_.registers.size(); ++i)
        add(statement::form::registers).index = static_cast<std::uint32_t>(i);
      return;
    }
    const auto first = into_.variables.size();
    auto link = syntax::variable::linkage::none;
    if (tokens_.take_dot("extern")) link = syntax::variable::linkage::external;
    parse_variables(tokens_, link, into_.variables);
    for (auto i = first; i < into_.variables.size(); ++i)
      add(statement::form::variable).index = static_cast<std::uint32_t>(i);
  }

  void parse_label() {
    const auto name = tokens_.expect_word();
    tokens_.expect_mark(':');
    if (tokens_.take_dot("branchtargets"))
      return parse_targets(statement::form::branch_targets, name);
    if (tokens_.take_dot("calltargets")) return parse_targets(statement::form::call_targets, name);
    if (tokens_.take_dot("callprototype")) return parse_prototype(name);
    add(statement::form::label).name = name;
  }

  void parse_targets(statement::form kind, std::string_view name) {
    statement& s = add(kind);
    s.name = name;
    do {
      s.targets.push_back(tokens_.expect_word());
    } while (tokens_.take_mark(','));
    tokens_.expect_mark(';');
  }

  void parse_prototype(std::string_view name) {
    statement& s = add(statement::form::call_prototype);
    s.name = name;
    s.index = static_cast<std::uint32_t>(into_.prototypes.size());
    syntax::prototype p;
    p.returns = parse_parameters(tokens_);
    tokens_.expect_word();  // _
    p.parameters = parse_parameters(tokens_);
    while (!tokens_.at_end() && !tokens_.take_mark(';')) tokens_.take();  // .noreturn and the like
    into_.prototypes.push_back(std::move(p));
  }

  void parse_instruction() {
    statement s;
    s.line = tokens_.line();
    if (tokens_.take_mark('@')) {
      s.guard.negated = tokens_.take_mark('!');
      s.guard.name = tokens_.expect_word();
    }
    s.name = tokens_.expect_word();
    while (tokens_.peek().kind == token_kind::dot_word) s.modifiers.push_back(tokens_.take().text);
    if (!tokens_.peek().is_mark(';')) {
      do {
        s.operands.push_back(parse_operand());
      } while (tokens_.take_mark(','));
    }
    tokens_.expect_mark(';');
    into_.body.push_back(std::move(s));
  }

  operand parse_operand() {
    if (tokens_.peek().is_mark('{')) return parse_group(operand::form::vector, '}');
    if (tokens_.peek().is_mark('[')) return parse_address();
    if (tokens_.peek().is_mark('(') && starts_call_list())
      return parse_group(operand::form::list, ')');
    operand first = parse_simple();
    if (first.kind != operand::form::name && first.kind != operand::form::sink) return first;
    if (!tokens_.take_mark('|')) return first;
    operand pair;
    pair.kind = operand::form::pair;
    pair.items.push_back(std::move(first));
    pair.items.push_back(parse_simple());
    return pair;
  }

  bool starts_call_list() const {
    return tokens_.peek(1).kind == token_kind::word || tokens_.peek(1).is_mark(')') ||
           (tokens_.peek(1).kind == token_kind::number &&
            (tokens_.peek(2).is_mark(',') || tokens_.peek(2).is_mark(')')));
  }

  operand parse_group(operand::form kind, char close) {
    operand group;
    group.kind = kind;
    tokens_.take();
    while (!tokens_.take_mark(close)) {
      group.items.push_back(parse_operand());
      if (!tokens_.peek().is_mark(close)) tokens_.expect_mark(',');
    }
    return group;
  }

  operand parse_simple() {
    operand result;
    if (tokens_.peek().is_mark('!') && tokens_.peek(1).kind == token_kind::word) {
      tokens_.take();
      result.negated = true;
    }
    if (tokens_.peek().kind != token_kind::word || tokens_.peek().text == "WARP_SZ")
      return tokens_.constant();
    result.name = tokens_.expect_word();
    if (result.name == "_") return result;
    result.kind = operand::form::name;
    if (tokens_.peek().kind == token_kind::dot_word) result.component = tokens_.take().text;
    if (tokens_.take_mark('+') || tokens_.peek().is_mark('-'))
      result.addend = static_cast<std::int64_t>(tokens_.constant().bits);
    return result;
  }

  operand parse_address() {
    operand result;
    result.kind = operand::form::address;
    tokens_.expect_mark('[');
    do {
      result.items.push_back(parse_operand());
    } while (tokens_.take_mark(','));
    tokens_.expect_mark(']');
    result.addend = result.items[0].addend;
    result.items[0].addend = 0;
    return result;
  }

  token_stream& tokens_;
  syntax::function& into_;
};

}  // namespace

void parse_body(token_stream& tokens, syntax::function& into) {
  body_parser(tokens, into).run();
}

}  // namespace gpuwire::softgpu::ptx
