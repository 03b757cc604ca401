// SPDX-License-Identifier: Apache-2.0
// The exported functions of a flat API: each packs its arguments, asks, and puts the answer where
// the caller wants it.
#include <sstream>

#include "flat.hpp"
#include "text.hpp"

namespace gpuwire::gen {
namespace {

constexpr std::size_t functions_per_file = 100;  // so that the compiler may work on several at once

std::string length_of(const flat_parameter& p) {
  std::string length = p.length_by_pointer ? p.length + "_room" : p.length;
  if (p.length_in_bytes) length += " / sizeof(" + p.cpp + ")";
  return length;
}

std::string before(const flat_parameter& p) {
  const auto& n = p.name;
  switch (p.form) {
    case flat_form::scalar:
      return "ask.in(" + n + ")";
    case flat_form::handle:
      return "ask.handle(" + n + ")";
    case flat_form::cstring:
      return "ask.text(" + n + ")";
    case flat_form::out_scalar:
      return p.in ? "ask.in_pointer(" + n + ")" : "ask.want(" + n + ")";
    case flat_form::out_handle:
    case flat_form::text:
      return "ask.want(" + n + ")";
    case flat_form::structure:
      return p.in ? "ask.in_pointer(" + n + ")" : "ask.want(" + n + ")";
    case flat_form::revisioned:
      return "ask.revisioned<revisions::" + p.cpp + ">(" + n + ")";
    case flat_form::count:
      return "ask.in_pointer(" + n + ")";
    case flat_form::array:
      return p.in ? "ask.in_array(" + n + ", " + length_of(p) + ")" : "ask.want(" + n + ")";
  }
  return "";
}

std::string after(const flat_parameter& p) {
  const auto& n = p.name;
  if (!p.out) return "";
  switch (p.form) {
    case flat_form::out_scalar:
    case flat_form::out_handle:
      return "ask.out(" + n + ")";
    case flat_form::structure:
      if (p.prefix > 0) return "ask.out_prefix(" + n + ", " + std::to_string(p.prefix) + ")";
      return p.in ? "ask.update(" + n + ")" : "ask.out(" + n + ")";
    case flat_form::revisioned:
      return "ask.update_revisioned<revisions::" + p.cpp + ">(" + n + ")";
    case flat_form::count:
      return "ask.update(" + n + ")";
    case flat_form::text:
      return "ask.out_text(" + n + ", " + p.length + ")";
    case flat_form::array:
      return "ask.out_array(" + n + ", " + length_of(p) + ")";
    default:
      return "";
  }
}

void write_entry(const flat_plan& p, const flat_function& f, std::ostringstream& out) {
  const auto& name = f.spec->name;
  out << "extern \"C\" GPUWIRE_EXPORT std::int32_t " << name << "(";
  if (f.spec->way == flat_way::refused) {
    out << ") {\n  return refuse(\"" << name << "\");\n}\n\n";
    return;
  }
  out << flat_parameters(f, true) << ") {\n";
  if (f.spec->way == flat_way::custom) {
    std::vector<std::string> names;
    for (const auto& q : f.parameters) names.push_back(q.name);
    out << "  return enter([&] { return custom::" << name << "(" << join(names, ", ")
        << "); });\n}\n\n";
    return;
  }
  out << "  return enter([&] {\n    question ask(calls::" << name << ");\n";
  for (const auto& q : f.parameters)
    if (q.form == flat_form::count)
      out << "    const std::uint32_t " << q.name << "_room = " << q.name << " != nullptr ? *"
          << q.name << " : 0;\n";
  const auto order = flat_order(f);
  for (const auto* q : order) out << "    " << before(*q) << ";\n";
  out << "    if (ask.send()) {\n";
  for (const auto* q : order)
    if (const auto line = after(*q); !line.empty()) out << "      " << line << ";\n";
  out << "    }\n    return ask.result();\n  });\n}\n\n";
  static_cast<void>(p);
}

std::string includes(const std::string& api) {
  return "#include \"shim/generated/" + api + "/custom.hpp\"\n#include \"shim/" + api +
         "/question.hpp\"\n\n";
}

}  // namespace

void write_flat_client(const flat_plan& p, file_set& files) {
  const auto& api = p.spec->api;
  const auto folder = "shim/generated/" + api + "/";
  std::vector<std::string> sources;
  std::ostringstream out;
  std::size_t count = 0;
  const auto close = [&] {
    if (count == 0) return;
    const auto name = "entries_" + std::to_string(sources.size() + 1) + ".cpp";
    files[folder + name] = flat_banner(p, "//") + includes(api) +
                           "using namespace gpuwire::" + api + ";\n\n" + out.str();
    sources.push_back(name);
    out.str("");
    count = 0;
  };
  std::ostringstream custom;
  custom << flat_banner(p, "//")
         << "// Bodies that are written by hand.\n#pragma once\n\n#include <cstdint>\n\n"
         << "namespace gpuwire::" << api << "::custom {\n\n";
  for (const auto& f : p.functions) {
    if (f.spec->way == flat_way::local) continue;
    if (f.spec->way == flat_way::custom) {
      custom << "std::int32_t " << f.spec->name << "(";
      auto parameters = flat_parameters(f, true);
      for (const auto& s : p.structs)  // a struct needs no definition here
        if (const auto at = parameters.find(s + "*"); at != std::string::npos)
          parameters.insert(at, "struct ");
      custom << parameters << ");\n";
    }
    write_entry(p, f, out);
    if (++count == functions_per_file) close();
  }
  close();
  custom << "\n}  // namespace gpuwire::" << api << "::custom\n";
  auto text = custom.str();
  const std::string plain = "struct ";
  for (auto at = text.find(plain); at != std::string::npos; at = text.find(plain, at))
    text.erase(at, plain.size());
  const std::string guard = "#include <cstdint>\n";
  text.insert(text.find(guard) + guard.size(),
              "\n#include \"wire/generated/" + api + "/types.hpp\"\n");
  files[folder + "custom.hpp"] = text;
  std::string list = flat_banner(p, "#") + "set(GPUWIRE_SHIM_GENERATED_SOURCES_" + api;
  for (const auto& s : sources) list += "\n  ${CMAKE_CURRENT_LIST_DIR}/" + s;
  files[folder + "sources.cmake"] = list + ")\n";
}

}  // namespace gpuwire::gen
