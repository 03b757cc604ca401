// SPDX-License-Identifier: Apache-2.0
// The wire's side: one struct for each call with its request and reply, and the table of calls.
#include <algorithm>

#include "output.hpp"
#include "text.hpp"

namespace gpuwire::gen {
namespace {

std::string struct_body(const std::vector<wire_field>& fields, const std::string& indent) {
  std::string text;
  for (const auto& f : fields) text += indent + cpp_type(f.type) + " " + f.name + "{};\n";
  const bool empty = fields.empty();
  text += indent + "template <class Self, class Visitor>\n" + indent + "static void visit(Self&" +
          (empty ? "" : " self") + ", Visitor&" + (empty ? "" : " v") + ") {";
  if (empty) return text + "}\n";
  text += "\n";
  for (const auto& f : fields)
    text += indent + "  v" + (is_nested(f.type) ? ".nested" : "") + "(self." + f.name + ");\n";
  return text + indent + "}\n";
}

std::string call_struct(const wire_call& c) {
  std::string text = "struct " + c.name + " {\n";
  text += "  static constexpr std::uint16_t call_id = " + hex(static_cast<std::uint64_t>(c.id), 4) +
          ";\n";
  text += "  static constexpr const char* name = \"" + c.name + "\";\n";
  text += "  static constexpr std::uint64_t fingerprint = " + hex(c.fingerprint, 16) + ";\n";
  text += "  struct request {\n" + struct_body(c.request, "    ") + "  };\n";
  text += "  struct reply {\n" + struct_body(c.reply, "    ") + "  };\n};\n";
  return text;
}

std::string includes() {
  return "#pragma once\n\n#include <cstdint>\n#include <string_view>\n\n#include "
         "\"wire/codec.hpp\"\n";
}

std::string structs_file(const plan& p) {
  std::string text = banner(p, "//") + includes() +
                     "\nnamespace gpuwire::wire {\n\n"
                     "// A length of two factors; the greatest number if it does not fit, which "
                     "every limit refuses.\n"
                     "constexpr std::uint64_t length_product(std::uint64_t a, std::uint64_t b) {\n"
                     "  return b != 0 && a > ~std::uint64_t{0} / b ? ~std::uint64_t{0} : a * b;\n"
                     "}\n\n}  // namespace gpuwire::wire\n\nnamespace gpuwire::msg {\n";
  for (const auto& s : p.spec->structs)
    text += "\nstruct " + s.name + " {\n" + struct_body(s.fields, "  ") + "};\n";
  for (const auto& [name, r] : p.records) {
    std::vector<wire_field> fields;
    for (const auto& leaf : r.leaves) fields.push_back(leaf.field);
    text += "\nstruct " + name + " {\n" + struct_body(fields, "  ") + "};\n";
  }
  return text + "\n}  // namespace gpuwire::msg\n";
}

std::string table_header(const plan& p) {
  std::string text =
      banner(p, "//") +
      "#pragma once\n\n#include <cstddef>\n#include <cstdint>\n#include <span>\n\nnamespace gpuwire::msg {\n\n"
      "enum class call_class : std::uint8_t { called, cached, posted, minted, bulk, push, notice };\n\n"
      "struct call_info {\n  std::uint16_t id;\n  const char* name;\n  call_class cls;\n"
      "  bool slow;               // may block or take long\n"
      "  bool unsafe_in_capture;  // prohibited while a stream captures\n"
      "  std::uint64_t fingerprint;\n};\n\n"
      "std::span<const call_info> call_table();          // by id\n"
      "const call_info* find_call(std::uint16_t id);     // null: unknown\n\n"
      "enum class handle_kind : std::uint8_t {\n";
  for (const auto& k : p.spec->kinds)
    text += "  " + k.name + " = " + std::to_string(k.number) + ",\n";
  text += "};\n\n// All of them, and one more than the highest number.\ninline constexpr handle_kind handle_kinds[] = {\n";
  int end = 0;
  for (const auto& k : p.spec->kinds) {
    text += "    handle_kind::" + k.name + ",\n";
    end = std::max(end, k.number + 1);
  }
  return text + "};\ninline constexpr std::size_t handle_kinds_end = " + std::to_string(end) +
         ";\n\n}  // namespace gpuwire::msg\n";
}

std::string table_source(const plan& p) {
  std::string text = banner(p, "//") +
                     "#include \"wire/generated/call_table.hpp\"\n\n#include "
                     "<algorithm>\n\nnamespace gpuwire::msg {\n"
                     "namespace {\n\nconstexpr call_info table[] = {\n";
  for (const auto& c : p.calls)
    text += "    {" + hex(static_cast<std::uint64_t>(c->id), 4) + ", \"" + c->name +
            "\", call_class::" + to_string(c->cls) + ", " + (c->slow ? "true" : "false") + ", " +
            (c->unsafe ? "true" : "false") + ", " + hex(c->fingerprint, 16) + "},\n";
  return text +
         "};\n\n}  // namespace\n\nstd::span<const call_info> call_table() { return table; }\n\n"
         "const call_info* find_call(std::uint16_t id) {\n"
         "  const auto* found = std::lower_bound(std::begin(table), std::end(table), id,\n"
         "                                       [](const call_info& c, std::uint16_t wanted) { "
         "return c.id < wanted; });\n"
         "  return found != std::end(table) && found->id == id ? found : nullptr;\n}\n\n}  // "
         "namespace gpuwire::msg\n";
}

}  // namespace

void write_messages(const plan& p, file_set& files) {
  const std::string folder = "wire/generated/";
  files[folder + "messages_structs.hpp"] = structs_file(p);
  std::string all =
      banner(p, "//") + "#pragma once\n\n#include \"wire/generated/messages_structs.hpp\"\n";
  for (const auto& family : p.spec->families) {
    const auto calls = calls_of(p, family);
    if (calls.empty()) continue;
    std::string text =
        banner(p, "//") + includes() +
        "#include \"wire/generated/messages_structs.hpp\"\n\nnamespace gpuwire::msg {\n";
    for (const auto* c : calls) text += "\n" + call_struct(*c);
    files[folder + "messages_" + family + ".hpp"] = text + "\n}  // namespace gpuwire::msg\n";
    all += "#include \"wire/generated/messages_" + family + ".hpp\"\n";
  }
  files[folder + "messages.hpp"] = all;
  files[folder + "call_table.hpp"] = table_header(p);
  files[folder + "call_table.cpp"] = table_source(p);
  files[folder + "CMakeLists.txt"] =
      banner(p, "#") +
      "add_library(gpuwire_messages STATIC call_table.cpp)\n"
      "set_target_properties(gpuwire_messages PROPERTIES POSITION_INDEPENDENT_CODE ON)\n"
      "target_compile_features(gpuwire_messages PUBLIC cxx_std_20)\n"
      "target_include_directories(gpuwire_messages PUBLIC ${CMAKE_CURRENT_LIST_DIR}/../..)\n";
}

}  // namespace gpuwire::gen
