// SPDX-License-Identifier: Apache-2.0
#include "parser.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include "body_parser.hpp"
#include "token_stream.hpp"
#include "variable_parser.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

using syntax::variable;

class module_parser {
 public:
  explicit module_parser(std::string_view text) : tokens_(split_tokens(text)) {}

  syntax::module run() {
    parse_header();
    while (!tokens_.at_end()) parse_item();
    return std::move(result_);
  }

 private:
  void parse_header() {
    if (!tokens_.take_dot("version")) tokens_.fail_here("expected .version");
    check_version(tokens_.take());
    if (!tokens_.take_dot("target")) tokens_.fail_here("expected .target");
    do {
      take_target(tokens_.line(), tokens_.expect_word());
    } while (tokens_.take_mark(','));
    if (tokens_.take_dot("address_size") && tokens_.expect_integer() != 64)
      tokens_.fail_here("only .address_size 64 is supported");
  }

  static void check_version(const token& t) {
    std::uint32_t major = 0, minor = 0;
    const char* const end = t.text.data() + t.text.size();
    const auto first = std::from_chars(t.text.data(), end, major);
    if (t.kind != token_kind::number || first.ec != std::errc{} || first.ptr == end)
      fail_syntax(t.line, "malformed .version '" + std::string(t.text) + "'");
    const auto second = std::from_chars(first.ptr + 1, end, minor);
    if (second.ec != std::errc{} || second.ptr != end || major > 99 || minor > 9)
      fail_syntax(t.line, "malformed .version '" + std::string(t.text) + "'");
    if (major * 10 + minor > ptx_version_max)
      fail(compile_error_kind::unsupported_version, t.line,
           "PTX .version " + std::string(t.text) + " is newer than the supported 9.0");
  }

  void take_target(std::uint32_t line, std::string_view name) {
    if (name.substr(0, 3) != "sm_") return;  // texmode_independent, debug
    std::uint32_t capability = 0;
    std::from_chars(name.data() + 3, name.data() + name.size(), capability);
    if (capability == 0) fail_syntax(line, "malformed .target '" + std::string(name) + "'");
    if (capability > target_max)
      fail(compile_error_kind::no_entry_target, line,
           ".target " + std::string(name) + " is newer than the supported sm_90");
    result_.target = capability;
  }

  void parse_item() {
    const token& first = tokens_.peek();
    if (tokens_.take_mark(';')) return;
    if (first.kind != token_kind::dot_word) tokens_.fail_here("expected a directive");
    if (first.text == "file" || first.text == "loc" || first.text == "pragma")
      return tokens_.skip_line();
    if (first.text == "section") return skip_section();
    if (first.text == "alias") return parse_alias();
    const auto link = take_linkage();
    if (tokens_.take_dot("entry")) return parse_function(link, true);
    if (tokens_.take_dot("func")) return parse_function(link, false);
    parse_variables(tokens_, link, result_.variables);
  }

  void skip_section() {
    tokens_.take();
    while (!tokens_.at_end() && !tokens_.peek().is_mark('{')) tokens_.take();
    tokens_.skip_braces();
  }

  // An alias takes its target's body: nothing distinguishes the two but the name.
  void parse_alias() {
    tokens_.take();
    const auto line = tokens_.line();
    const auto alias = tokens_.expect_word();
    tokens_.expect_mark(',');
    const auto target = tokens_.expect_word();
    tokens_.expect_mark(';');
    for (std::size_t i = 0; i < result_.functions.size(); ++i) {
      if (result_.functions[i].name != target || !result_.functions[i].has_body) continue;
      syntax::function copy = result_.functions[i];
      copy.name = alias;
      result_.functions.push_back(std::move(copy));
      return;
    }
    fail_syntax(line, "alias of the unknown function '" + std::string(target) + "'");
  }

  variable::linkage take_linkage() {
    if (tokens_.take_dot("visible")) return variable::linkage::visible;
    if (tokens_.take_dot("extern")) return variable::linkage::external;
    if (tokens_.take_dot("weak")) return variable::linkage::weak;
    if (tokens_.take_dot("common")) return variable::linkage::common;
    return variable::linkage::none;
  }

  void parse_function(variable::linkage link, bool entry) {
    syntax::function f;
    f.link = link;
    f.entry = entry;
    skip_attribute(tokens_);
    if (!entry) f.returns = parse_parameters(tokens_);
    f.line = tokens_.line();
    f.name = tokens_.expect_word();
    f.parameters = parse_parameters(tokens_);
    parse_function_directives(f);
    if (!tokens_.take_mark(';')) {
      f.has_body = true;
      parse_body(tokens_, f);
    }
    result_.functions.push_back(std::move(f));
  }

  void parse_function_directives(syntax::function& f) {
    while (tokens_.peek().kind == token_kind::dot_word) {
      const auto directive = tokens_.take().text;
      if (directive == "pragma") {
        while (!tokens_.at_end() && !tokens_.take_mark(';')) tokens_.take();
        continue;
      }
      std::uint64_t product = 1;
      std::vector<std::uint64_t> numbers;
      while (tokens_.peek().kind == token_kind::number) {
        numbers.push_back(tokens_.expect_integer());
        product *= numbers.back();
        if (!tokens_.take_mark(',')) break;
      }
      if (directive == "reqnctapercluster" && !numbers.empty() && numbers.size() <= 3) {
        f.cluster.fill(1);
        std::copy(numbers.begin(), numbers.end(), f.cluster.begin());
      }
      if ((directive == "maxntid" || directive == "reqntid") && product <= 1024)
        f.threads_max = static_cast<std::uint32_t>(product);
    }
  }

  token_stream tokens_;
  syntax::module result_;
};

}  // namespace

syntax::module parse(std::string_view text) {
  return module_parser(text).run();
}

}  // namespace gpuwire::softgpu::ptx
