// SPDX-License-Identifier: Apache-2.0
#include "token_stream.hpp"

#include <bit>
#include <charconv>
#include <cstdlib>

namespace gpuwire::softgpu::ptx {
namespace {

std::uint64_t parse_digits(std::string_view digits, int base, std::uint32_t line,
                           std::string_view whole) {
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.empty())
    fail_syntax(line, "malformed number '" + std::string(whole) + "'");
  return value;
}

bool is_hexadecimal_float(std::string_view text) {
  return text.size() > 2 && text[0] == '0' &&
         (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D');
}

bool is_decimal_float(std::string_view text) {
  if (text.size() > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) return false;
  return text.find_first_of(".eE") != text.npos;
}

bool is_float(const token& t) {
  return t.kind == token_kind::number && (is_hexadecimal_float(t.text) || is_decimal_float(t.text));
}

std::uint64_t parse_integer(const token& t) {
  std::string_view digits = t.text;
  if (digits.back() == 'U' || digits.back() == 'u') digits.remove_suffix(1);
  if (digits.size() > 1 && digits[0] == '0') {
    const char c = digits[1];
    if (c == 'x' || c == 'X') return parse_digits(digits.substr(2), 16, t.line, t.text);
    if (c == 'b' || c == 'B') return parse_digits(digits.substr(2), 2, t.line, t.text);
    return parse_digits(digits.substr(1), 8, t.line, t.text);
  }
  return parse_digits(digits, 10, t.line, t.text);
}

syntax::operand parse_float(const token& t, bool negative) {
  syntax::operand result;
  const char c = t.text[1 < t.text.size() ? 1 : 0];
  if (is_hexadecimal_float(t.text)) {
    const bool narrow = c == 'f' || c == 'F';
    if (t.text.size() != (narrow ? 10u : 18u))
      fail_syntax(t.line, "malformed number '" + std::string(t.text) + "'");
    result.kind = narrow ? syntax::operand::form::f32 : syntax::operand::form::f64;
    result.bits = parse_digits(t.text.substr(2), 16, t.line, t.text);
    if (negative) result.bits ^= narrow ? 0x8000'0000ull : 0x8000'0000'0000'0000ull;
    return result;
  }
  result.kind = syntax::operand::form::f64;
  const std::string copy(t.text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (end != copy.c_str() + copy.size()) fail_syntax(t.line, "malformed number '" + copy + "'");
  result.bits = std::bit_cast<std::uint64_t>(negative ? -value : value);
  return result;
}

int precedence_of(const token& t) {
  if (t.kind != token_kind::mark) return -1;
  if (t.text == "<<" || t.text == ">>") return 3;
  switch (t.text[0]) {
    case '|':
      return 0;
    case '^':
      return 1;
    case '&':
      return 2;
    case '+':
    case '-':
      return 4;
    case '*':
    case '/':
    case '%':
      return 5;
    default:
      return -1;
  }
}

}  // namespace

void token_stream::fail_here(const std::string& what) const {
  const std::string_view found = at_end() ? "the end of the text" : peek().text;
  fail_syntax(line(), what + " before '" + std::string(found) + "'");
}

std::uint64_t token_stream::expect_integer() {
  if (peek().kind != token_kind::number || is_float(peek())) fail_here("expected an integer");
  return parse_integer(take());
}

void token_stream::skip_braces() {
  expect_mark('{');
  for (std::uint32_t depth = 1; depth > 0;) {
    if (at_end()) fail_here("expected '}'");
    if (peek().is_mark('{')) ++depth;
    if (peek().is_mark('}')) --depth;
    take();
  }
}

syntax::operand token_stream::constant() {
  const bool negative = peek().is_mark('-');
  if (is_float(peek(negative ? 1 : 0))) {
    if (negative) take();
    return parse_float(take(), negative);
  }
  syntax::operand result;
  result.kind = syntax::operand::form::integer;
  result.bits = expression(0);
  return result;
}

std::uint64_t token_stream::expression(int precedence_min) {
  std::uint64_t left = unary();
  for (;;) {
    const int precedence = precedence_of(peek());
    // A '|' after an integer is the second destination of an instruction in no known form, so it is
    // an operator here.
    if (precedence < precedence_min) return left;
    const std::string_view mark = take().text;
    const std::uint64_t right = expression(precedence + 1);
    switch (mark[0]) {
      case '|':
        left |= right;
        break;
      case '^':
        left ^= right;
        break;
      case '&':
        left &= right;
        break;
      case '<':
        left = right < 64 ? left << right : 0;
        break;
      case '>':
        left = right < 64 ? left >> right : 0;
        break;
      case '+':
        left += right;
        break;
      case '-':
        left -= right;
        break;
      case '*':
        left *= right;
        break;
      default:
        if (right == 0) fail_here("division by zero");
        left = mark[0] == '/' ? left / right : left % right;
    }
  }
}

std::uint64_t token_stream::unary() {
  if (take_mark('-')) return 0 - unary();
  if (take_mark('+')) return unary();
  if (take_mark('~')) return ~unary();
  if (take_mark('!')) return unary() == 0 ? 1 : 0;
  if (take_mark('(')) {
    const bool cast =
        peek().is(token_kind::dot_word, "s64") || peek().is(token_kind::dot_word, "u64");
    if (cast) {
      take();
      expect_mark(')');
      return unary();
    }
    const std::uint64_t value = expression(0);
    expect_mark(')');
    return value;
  }
  if (peek().is(token_kind::word, "WARP_SZ")) {
    take();
    return 32;
  }
  return expect_integer();
}

}  // namespace gpuwire::softgpu::ptx
