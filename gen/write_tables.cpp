// SPDX-License-Identifier: Apache-2.0
// Tables of the shim that carry no call: entry points by name and version, names and texts of
// results.
#include <set>

#include "output.hpp"
#include "text.hpp"

namespace gpuwire::gen {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

constexpr const char* proc_header = R"(#pragma once

#include <string_view>

namespace gpuwire::shim {

enum class proc_status { found, name_unknown, version_not_sufficient };

struct proc_answer {
  proc_status status;
  void* function;      // null unless found
  const char* symbol;  // the exported name that `function` has; null unless found
};

// What a driver of the headers' version answers for a name without revision. per_thread asks for the entry that takes the
// null stream as the thread's own, where there is one.
proc_answer find_proc(std::string_view name, int version, bool per_thread);

}  // namespace gpuwire::shim
)";

constexpr const char* proc_search = R"(
}  // namespace

proc_answer find_proc(std::string_view name, int version, bool per_thread) {
  const auto [first, last] = std::equal_range(std::begin(table), std::end(table), row{name, 0, false, nullptr, nullptr},
                                              [](const row& a, const row& b) { return a.name < b.name; });
  if (first == last) return {proc_status::name_unknown, nullptr, nullptr};
  const bool has_series = std::any_of(first, last, [](const row& r) { return r.per_thread; });
  const row* best = nullptr;
  for (const auto* r = first; r != last; ++r)
    if (r->per_thread == (per_thread && has_series) && r->version <= version) best = r;
  if (!best) return {proc_status::version_not_sufficient, nullptr, nullptr};
  return {proc_status::found, best->function, best->symbol};
}

}  // namespace gpuwire::shim
)";

std::string proc_source(const plan& p) {
  std::string text = banner(p, "//") + "#include \"shim/generated/proc_table.hpp\"\n\n" +
                     header_includes(p) +
                     "\n#include <algorithm>\n\n#include \"shim/entry.hpp\"\n\nextern \"C\" {\n";
  for (const auto& h : p.spec->headerless)
    if (h.since != 0) text += p.spec->result_type + " " + h.name + "(void);\n";
  text +=
      "}  // extern \"C\"\n\nnamespace gpuwire::shim {\nnamespace {\n\n"
      "struct row {\n  std::string_view name;\n  int version;  // the first that has it\n  bool "
      "per_thread;\n"
      "  const char* symbol;\n  void* function;\n};\n\n"
      "// By name, series, version.\nconst row table[] = {\n";
  for (const auto& r : p.procs)
    text += "    {\"" + r.base + "\", " + std::to_string(r.version) + ", " +
            (r.per_thread ? "true" : "false") + ", \"" + r.symbol +
            "\", reinterpret_cast<void*>(&::" + r.symbol + ")},\n";
  return text + "};\n" + proc_search;
}

std::string error_source(const plan& p) {
  std::string names, texts;
  for (const auto& [value, name] : p.header->results) {
    names += "    case " + std::to_string(value) + ": return \"" + name + "\";\n";
    texts += "    case " + std::to_string(value) + ": return " +
             quoted(p.spec->errors.at(value).second) + ";\n";
  }
  return banner(p, "//") +
         "#include \"shim/generated/error_table.hpp\"\n\nnamespace gpuwire::shim {\n\n" +
         "const char* error_name(int code) {\n  switch (code) {\n" + names +
         "    default: return nullptr;\n  }\n}\n\n" +
         "const char* error_text(int code) {\n  switch (code) {\n" + texts +
         "    default: return nullptr;\n  }\n}\n\n}  // namespace gpuwire::shim\n";
}

}  // namespace

void write_tables(const plan& p, file_set& files) {
  files["shim/generated/proc_table.hpp"] = banner(p, "//") + proc_header;
  files["shim/generated/proc_table.cpp"] = proc_source(p);
  files["shim/generated/error_table.hpp"] =
      banner(p, "//") +
      "#pragma once\n\nnamespace gpuwire::shim {\n\n// Null for a code that the driver does not "
      "know.\n"
      "const char* error_name(int code);\nconst char* error_text(int code);\n\n}  // namespace "
      "gpuwire::shim\n";
  files["shim/generated/error_table.cpp"] = error_source(p);
}

}  // namespace gpuwire::gen
