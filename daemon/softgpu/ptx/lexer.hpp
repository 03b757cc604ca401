// SPDX-License-Identifier: Apache-2.0
// Splits PTX text into tokens. Tokens are views into the text, which must outlive them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gpuwire::softgpu::ptx {

enum class token_kind : std::uint8_t {
  word,      // an opcode, a name, a register: add  %r1  $L__BB0_1
  dot_word,  // a directive or modifier without its dot: entry  u32  L1::no_allocate
  number,    // 12  0x1F  0f3F800000  1.5
  text,      // a string without its quotes
  mark,      // one punctuation character, or << or >>
  end,
};

struct token {
  token_kind kind = token_kind::end;
  std::uint32_t line = 0;
  std::string_view text;

  bool is(token_kind k, std::string_view t) const { return kind == k && text == t; }
  bool is_mark(char c) const {
    return kind == token_kind::mark && text.size() == 1 && text[0] == c;
  }
};

// The last token is always of kind `end`. Throws compile_failure.
std::vector<token> split_tokens(std::string_view text);

}  // namespace gpuwire::softgpu::ptx
