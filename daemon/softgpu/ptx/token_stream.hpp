// SPDX-License-Identifier: Apache-2.0
// The parsers' view of a token vector: look, take, expect, and the constant expressions of PTX.
#pragma once

#include <algorithm>
#include <string>

#include "failure.hpp"
#include "lexer.hpp"
#include "syntax.hpp"

namespace gpuwire::softgpu::ptx {

class token_stream {
 public:
  explicit token_stream(std::vector<token> tokens) : tokens_(std::move(tokens)) {}

  const token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
  }
  const token& take() {
    const token& t = peek();
    if (position_ + 1 < tokens_.size()) ++position_;
    return t;
  }
  std::uint32_t line() const { return peek().line; }
  bool at_end() const { return peek().kind == token_kind::end; }

  bool take_mark(char c) {
    if (!peek().is_mark(c)) return false;
    take();
    return true;
  }
  bool take_dot(std::string_view word) {
    if (!peek().is(token_kind::dot_word, word)) return false;
    take();
    return true;
  }
  void expect_mark(char c) {
    if (!take_mark(c)) fail_here(std::string("expected '") + c + "'");
  }
  std::string_view expect_word() {
    if (peek().kind != token_kind::word) fail_here("expected a name");
    return take().text;
  }
  std::uint64_t expect_integer();
  [[noreturn]] void fail_here(const std::string& what) const;

  void skip_line() {
    const auto first = line();
    while (!at_end() && line() == first) take();
  }
  void skip_braces();

  // An integer expression, or one floating-point literal with an optional sign.
  syntax::operand constant();

 private:
  std::uint64_t expression(int precedence_min);
  std::uint64_t unary();

  std::vector<token> tokens_;
  std::size_t position_ = 0;
};

}  // namespace gpuwire::softgpu::ptx
