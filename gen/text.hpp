// SPDX-License-Identifier: Apache-2.0
// Small helpers on strings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuwire::gen {

std::vector<std::string> split(std::string_view text,
                               std::string_view separators);  // empty pieces are dropped
std::string join(const std::vector<std::string>& pieces, std::string_view between);
bool starts_with(std::string_view text, std::string_view beginning);
bool ends_with(std::string_view text, std::string_view end);
bool is_identifier(std::string_view text);
bool is_keyword(std::string_view text);  // of C++, or taken by what every message struct declares
bool parse_number(std::string_view text, long& value);  // decimal or 0x..; the whole text

// The name without its per-thread-stream ending; the same name if it has none.
std::string without_per_thread(const std::string& name);
// The name without its revision ("_v2"), and that revision (1 if none).
std::string without_revision(const std::string& name, int& revision);

}  // namespace gpuwire::gen
