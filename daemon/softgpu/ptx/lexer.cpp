// SPDX-License-Identifier: Apache-2.0
#include "lexer.hpp"

#include <string>

#include "failure.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool starts_word(char c) {
  return is_letter(c) || c == '_' || c == '$' || c == '%';
}
bool continues_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}

class splitter {
 public:
  explicit splitter(std::string_view text) : text_(text) {
    // The driver takes NUL-terminated text; what follows the NUL is not PTX.
    if (const auto nul = text_.find('\0'); nul != text_.npos) text_ = text_.substr(0, nul);
    tokens_.reserve(text_.size() / 4 + 1);
  }

  std::vector<token> run() {
    while (skip_blank()) next();
    tokens_.push_back({token_kind::end, line_, {}});
    return std::move(tokens_);
  }

 private:
  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  // False at the end of the text.
  bool skip_blank() {
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '\n') {
        ++line_;
        ++position_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
        ++position_;
      } else if (c == '/' && at(position_ + 1) == '/') {
        while (position_ < text_.size() && text_[position_] != '\n') ++position_;
      } else if (c == '/' && at(position_ + 1) == '*') {
        skip_comment();
      } else {
        return true;
      }
    }
    return false;
  }

  void skip_comment() {
    const auto opened = line_;
    for (position_ += 2; position_ < text_.size(); ++position_) {
      if (text_[position_] == '\n') ++line_;
      if (text_[position_] == '*' && at(position_ + 1) == '/') {
        position_ += 2;
        return;
      }
    }
    fail_syntax(opened, "comment without end");
  }

  void push(token_kind kind, std::size_t first, std::size_t last) {
    tokens_.push_back({kind, line_, text_.substr(first, last - first)});
    position_ = last;
  }

  void next() {
    const std::size_t first = position_;
    const char c = text_[first];
    if (starts_word(c)) return push(token_kind::word, first, word_end(first + 1));
    if (is_digit(c)) return push(token_kind::number, first, number_end(first));
    // A modifier may begin with a digit (tex.2d), a directive may not.
    const bool modifier = first > 0 && continues_word(text_[first - 1]) && is_digit(at(first + 1));
    if (c == '.' && (is_letter(at(first + 1)) || at(first + 1) == '_' || modifier)) {
      push(token_kind::dot_word, first + 1, dot_word_end(first + 1));
      return;
    }
    if (c == '"') return push_text();
    if ((c == '<' || c == '>') && at(first + 1) == c)
      return push(token_kind::mark, first, first + 2);
    if (std::string_view("@!,;:()[]{}<>|+-*/%&^~=.?").find(c) == std::string_view::npos)
      fail_syntax(line_, std::string("unexpected character '") + c + "'");
    push(token_kind::mark, first, first + 1);
  }

  std::size_t word_end(std::size_t i) const {
    while (continues_word(at(i))) ++i;
    return i;
  }

  // Modifiers such as .L2::128B carry double colons; a label's single colon ends a word.
  std::size_t dot_word_end(std::size_t i) const {
    for (;;) {
      i = word_end(i);
      if (at(i) != ':' || at(i + 1) != ':') return i;
      i += 2;
    }
  }

  std::size_t number_end(std::size_t i) const {
    const std::size_t first = i;
    while (is_digit(at(i)) || is_letter(at(i)) || at(i) == '_') ++i;
    const bool hexadecimal = at(first) == '0' && i > first + 1 && is_letter(at(first + 1));
    if (hexadecimal) return i;
    if (at(i) == '.' && is_digit(at(i + 1)))
      for (++i; is_digit(at(i)) || is_letter(at(i));) ++i;
    const bool exponent = at(i - 1) == 'e' || at(i - 1) == 'E';
    if (exponent && (at(i) == '-' || at(i) == '+'))
      for (++i; is_digit(at(i));) ++i;
    return i;
  }

  void push_text() {
    const std::size_t first = position_ + 1;
    std::size_t last = first;
    while (last < text_.size() && text_[last] != '"' && text_[last] != '\n')
      last += text_[last] == '\\' ? 2 : 1;
    if (at(last) != '"') fail_syntax(line_, "string without end");
    push(token_kind::text, first, last);
    ++position_;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::uint32_t line_ = 1;
  std::vector<token> tokens_;
};

}  // namespace

std::vector<token> split_tokens(std::string_view text) {
  return splitter(text).run();
}

}  // namespace gpuwire::softgpu::ptx
