// SPDX-License-Identifier: Apache-2.0
// One test case for each call: it goes through the codec and back, and no shorter body is accepted.
#include "output.hpp"

namespace gpuwire::gen {

void write_tests(const plan& p, file_set& files) {
  std::vector<std::string> sources;
  for (const auto& family : p.spec->families) {
    const auto calls = calls_of(p, family);
    if (calls.empty()) continue;
    std::string text =
        banner(p, "//") +
        "#include \"test/gen/message_probe.hpp\"\n#include \"wire/generated/messages_" + family +
        ".hpp\"\n";
    for (const auto* c : calls)
      text += "\nTEST_CASE(\"" + c->name +
              " survives the wire and refuses every shorter body\") {\n  "
              "gpuwire::test::probe<gpuwire::msg::" +
              c->name + "::request>();\n  gpuwire::test::probe<gpuwire::msg::" + c->name +
              "::reply>();\n}\n";
    files["test/generated/messages_" + family + "_test.cpp"] = text;
    sources.push_back("messages_" + family + "_test.cpp");
  }
  files["test/generated/sources.cmake"] = source_list(
      p, "GPUWIRE_GENERATED_MESSAGE_TESTS", "Sources of the executable test_messages.", sources);
}

}  // namespace gpuwire::gen
