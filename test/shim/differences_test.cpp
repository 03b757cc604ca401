// SPDX-License-Identifier: Apache-2.0
// docs/differences.md lists every device attribute that the shim reports 0, with the same reason.
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "test/catch.hpp"

namespace {

std::string read(const std::string& path) {
  std::ifstream file(std::string(GPUWIRE_SOURCE) + "/" + path);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::set<std::string> all_matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    found.insert((*it)[1].str() + ": " + (*it)[2].str());
  return found;
}

}  // namespace

TEST_CASE("every withheld attribute is documented with its reason, and no other") {
  const auto code = all_matches(read("shim/devices.cpp"),
                                std::regex(R"re(WITHHELD\(([A-Z0-9_]+),\s*"([^"]+)"\))re"));
  const auto text = read("docs/differences.md");
  const auto listed = all_matches(text.substr(text.find("| attribute | reason |")),
                                  std::regex(R"(\| ([A-Z0-9_]{4,}) \| ([^|]+) \|)"));
  CHECK(code.size() > 20);  // the pattern still finds them
  CHECK(code == listed);
}
