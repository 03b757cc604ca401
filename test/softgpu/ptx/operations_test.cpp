// SPDX-License-Identifier: Apache-2.0
// Every operation of golden/operations.tsv over golden/operands.bin gives, bit for bit, what a GPU
// gave.
#include <sstream>

#include "snippet.hpp"
#include "test/catch.hpp"

namespace gpuwire::softgpu::ptx::test {
namespace {

struct operation {
  std::string text;
  std::vector<std::string> destinations, sources;
  std::string wide;  // type of the destination registers, when not the natural one
  std::uint64_t expected = 0;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<operation> read_operations() {
  std::vector<operation> result;
  for (const auto& line : split(read_golden("operations.tsv"), '\n')) {
    const auto fields = split(line, '\t');
    operation o{
        fields.at(0), split(fields.at(1), ','), {}, {}, std::stoull(fields.at(4), nullptr, 16)};
    if (fields[2] != "-") o.sources = split(fields[2], ',');
    if (fields[3] != "-") o.wide = fields[3];
    result.push_back(std::move(o));
  }
  return result;
}

int group_of(const std::string& type) {
  if (type == "f32") return 1;
  if (type == "f64") return 2;
  if (type == "f16" || type == "f16x2") return 3;
  if (type == "bf16" || type == "bf16x2") return 4;
  return 0;
}

std::string register_of(const std::string& type) {
  if (type.find("16x2") != std::string::npos || type.find("32") != std::string::npos) return "b32";
  return type.find("64") != std::string::npos ? "b64" : "b16";
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::string load_source(const std::string& described, int n) {
  const auto mask = described.find('&');
  const std::string type = described.substr(0, mask), name = "%s" + std::to_string(n);
  const int offset = ((type == "pred" ? 0 : group_of(type)) * 3 + n) * 2048;
  const std::string from = "[%in+" + std::to_string(offset) + "];\n";
  if (type == "pred") {
    const std::string word = "%x" + std::to_string(n);
    return ".reg .pred " + name + "; .reg .b64 " + word + ";\nld.global.b64 " + word + ", " + from +
           "and.b64 " + word + ", " + word + ", 1;\nsetp.ne.b64 " + name + ", " + word + ", 0;\n";
  }
  const std::string kind = register_of(type);
  std::string text =
      ".reg ." + kind + " " + name + ";\nld.global." + kind + " " + name + ", " + from;
  if (mask != std::string::npos)
    text += "and." + kind + " " + name + ", " + name + ", " + described.substr(mask + 1) + ";\n";
  return text;
}

std::string kernel_of(const operation& o, const std::string& name) {
  std::string before, after, text = o.text;
  for (std::size_t n = 0; n < o.sources.size(); ++n) {
    before += load_source(o.sources[n], static_cast<int>(n));
    replace(text, "{" + std::to_string(n) + "}", "%s" + std::to_string(n));
  }
  for (std::size_t n = 0; n < o.destinations.size(); ++n) {
    const std::string d = "%d" + std::to_string(n);
    const std::string to = "[%out+" + std::to_string(n * 8) + "]";
    replace(text, std::string("{") + "defg"[n] + "}", d);
    if (o.destinations[n] == "pred") {
      before += ".reg .pred " + d + "; .reg .b32 %y" + d.substr(2) + ";\nsetp.ne.b64 " + d +
                ", %in, %in;\n";
      after += "selp.b32 %y" + d.substr(2) + ", 1, 0, " + d + ";\nst.global.b32 " + to + ", %y" +
               d.substr(2) + ";\n";
    } else {
      const std::string kind = o.wide.empty() ? register_of(o.destinations[n]) : o.wide;
      before += ".reg ." + kind + " " + d + ";\nmov." + kind + " " + d + ", 0;\n";
      after += "st.global." + kind + " " + to + ", " + d + ";\n";
    }
  }
  return ".visible .entry " + name + R"((.param .u64 pin, .param .u64 pout)
{
  .reg .b64 %in, %out;
  .reg .b32 %i, %j;
  ld.param.u64 %in, [pin];
  ld.param.u64 %out, [pout];
  mov.u32 %i, %tid.x;
  mov.u32 %j, %ctaid.x;
  mad.lo.u32 %i, %j, 128, %i;
  mad.wide.u32 %in, %i, 8, %in;
  mad.wide.u32 %out, %i, 32, %out;
)" + before +
         text + ";\n" + after + "ret;\n}\n";
}

}  // namespace

TEST_CASE("every operation gives the bits that the hardware gives") {
  const auto operations = read_operations();
  REQUIRE(operations.size() > 1200);
  std::string text = header();
  for (std::size_t n = 0; n < operations.size(); ++n)
    text += kernel_of(operations[n], "k" + std::to_string(n));
  machine m(text);
  const std::string operands = read_golden("operands.bin");
  REQUIRE(operands.size() == 5 * 3 * 256 * 8);
  const auto in = m.upload(std::vector<char>(operands.begin(), operands.end()));
  constexpr std::size_t bytes = 256 * 32;
  const auto out = m.upload(std::vector<std::byte>(bytes));
  for (std::size_t n = 0; n < operations.size(); ++n) {
    INFO(operations[n].text);
    std::memset(reinterpret_cast<void*>(out), 0, bytes);
    const fault f =
        m.run("k" + std::to_string(n), {.grid = {2, 1, 1}, .block = {128, 1, 1}}, in, out);
    CHECK(f.text == "");
    CHECK(hash(reinterpret_cast<const std::byte*>(out), bytes) == operations[n].expected);
  }
}

}  // namespace gpuwire::softgpu::ptx::test
