// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace gpuwire::gen {

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> pieces;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(separators, at)) != std::string_view::npos) {
    const auto end = std::min(text.find_first_of(separators, at), text.size());
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

std::string join(const std::vector<std::string>& pieces, std::string_view between) {
  std::string text;
  for (const auto& piece : pieces) {
    if (&piece != &pieces.front()) text += between;
    text += piece;
  }
  return text;
}

bool starts_with(std::string_view text, std::string_view beginning) {
  return text.substr(0, beginning.size()) == beginning;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), letter);
}

bool is_keyword(std::string_view text) {
  static const auto words = split(
      "and asm auto bool break case catch char class const continue default delete do double else "
      "enum explicit "
      "export extern false float for friend goto if inline int long mutable namespace new not "
      "operator or "
      "private protected public register requires return short signed sizeof static struct switch "
      "template "
      "this throw true try typedef typeid typename union unsigned using virtual void volatile "
      "while xor "
      "visit",
      " ");
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool parse_number(std::string_view text, long& value) {
  const std::string copy(text);
  char* end = nullptr;
  value = std::strtol(copy.c_str(), &end, starts_with(copy, "0x") ? 16 : 10);
  return !copy.empty() && *end == '\0';
}

std::string without_per_thread(const std::string& name) {
  return ends_with(name, "_ptds") || ends_with(name, "_ptsz") ? name.substr(0, name.size() - 5)
                                                              : name;
}

std::string without_revision(const std::string& name, int& revision) {
  revision = 1;
  const auto at = name.rfind("_v");
  long number = 0;
  if (at == std::string::npos || !parse_number(std::string_view(name).substr(at + 2), number))
    return name;
  revision = static_cast<int>(number);
  return name.substr(0, at);
}

}  // namespace gpuwire::gen
