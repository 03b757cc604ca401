// SPDX-License-Identifier: Apache-2.0
// The other end of a flat API: the table of the library's functions, and for each call what
// unpacks, calls and packs.
#include <sstream>

#include "flat.hpp"
#include "text.hpp"

namespace gpuwire::gen {
namespace {

constexpr std::size_t functions_per_file = 100;

std::string take(const flat_parameter& p) {
  switch (p.form) {
    case flat_form::scalar:
      if (p.most >= 0) return "a.in_most<" + p.cpp + ">(" + std::to_string(p.most) + ")";
      return "a.in<" + p.cpp + ">()";
    case flat_form::handle:
      return "a.handle(" + std::to_string(p.kind) + ")";
    case flat_form::cstring:
      return "a.cstring()";
    case flat_form::out_scalar:
    case flat_form::structure:
      return p.in ? "a.given<" + p.cpp + ">()" : "a.wanted<" + p.cpp + ">()";
    case flat_form::out_handle:
      return "a.wanted<void*>()";
    case flat_form::revisioned:
      return "a.revisioned<revisions::" + p.cpp + ">()";
    case flat_form::text:
      return "a.room_for_text(" + p.length + ")";
    case flat_form::count:
      return "a.given<" + p.cpp + ">()";
    case flat_form::array: {
      std::string length = p.length_by_pointer ? p.length + ".value" : p.length;
      if (p.length_in_bytes) length += " / sizeof(" + p.cpp + ")";
      const auto how = p.length_by_pointer ? "counted" : p.in ? "given_array" : "wanted_array";
      return std::string("a.") + how + "<" + p.cpp + ">(" + length + ")";
    }
  }
  return "";
}

std::string argument(const flat_function& f, const flat_parameter& p) {
  if (p.form == flat_form::scalar) {
    for (const auto& q : f.parameters)  // the length of a text: of the room that there is
      if (q.form == flat_form::text && q.length == p.name) return q.name + ".room()";
    return p.name;
  }
  return p.form == flat_form::handle ? p.name : p.name + ".get()";
}

std::string give(const flat_parameter& p) {
  if (!p.out) return "";
  const std::string kind = p.kind != 0 ? ", " + std::to_string(p.kind) : "";
  if (p.form == flat_form::array && p.length_by_pointer)
    return "a.give(" + p.name + ", " + p.length + ".value" + kind + ")";
  return "a.give(" + p.name + kind + ")";
}

void write_dispatch(const flat_function& f, std::ostringstream& out) {
  const auto& name = f.spec->name;
  out << "void " << name << "(answer& a) {\n";
  const auto order = flat_order(f);
  for (const auto* p : order) {
    const bool changes = p->form != flat_form::scalar && p->form != flat_form::handle;
    out << "  " << (changes ? "auto " : "const auto ") << p->name << " = " << take(*p) << ";\n";
  }
  out << "  if (!a.ready(" << (f.spec->write ? "true" : "false") << ")) return;\n";
  std::vector<std::string> arguments;
  for (const auto& p : f.parameters) arguments.push_back(argument(f, p));
  out << "  a.call(a.library()." << name;
  for (const auto& argument : arguments) out << ", " << argument;
  out << ");\n";
  for (const auto* p : order) {
    if (const auto line = give(*p); !line.empty()) out << "  " << line << ";\n";
    if (p->frees) out << "  a.freed(" << p->name << ", " << p->kind << ");\n";
  }
  out << "}\n\n";
}

}  // namespace

void write_flat_server(const flat_plan& p, file_set& files) {
  const auto& api = p.spec->api;
  const auto folder = "daemon/generated/" + api + "/";
  std::ostringstream table, load, list;
  table << flat_banner(p, "//")
        << "// The functions of the library, found by name; null where it lacks one.\n"
        << "#pragma once\n\n#include \"wire/generated/" << api
        << "/types.hpp\"\n\nnamespace gpuwire::" << api << " {\n\nstruct library_table {\n";
  load << flat_banner(p, "//") << "#include \"daemon/generated/" << api
       << "/table.hpp\"\n\nnamespace gpuwire::" << api
       << " {\n\nvoid load(library_table& t, void* (*find)(const char*, void*), void* user) {\n";
  list << flat_banner(p, "//") << "#include \"daemon/generated/" << api << "/dispatch.hpp\"\n\n"
       << "#include \"wire/generated/" << api << "/calls.hpp\"\n\nnamespace gpuwire::" << api
       << " {\n"
       << "namespace dispatch {\n";
  std::ostringstream cases, out;
  std::vector<std::string> sources = {"table.cpp", "dispatch.cpp"};
  std::size_t count = 0, files_made = 0;
  const auto close = [&] {
    if (count == 0) return;
    const auto name = "dispatch_" + std::to_string(++files_made) + ".cpp";
    files[folder + name] = flat_banner(p, "//") + "#include \"daemon/" + api +
                           "/answer.hpp\"\n\nnamespace gpuwire::" + api + "::dispatch {\n\n" +
                           out.str() + "}  // namespace gpuwire::" + api + "::dispatch\n";
    sources.push_back(name);
    out.str("");
    count = 0;
  };
  for (const auto& f : p.functions) {
    if (f.spec->id == 0) continue;
    const auto& name = f.spec->name;
    table << "  std::int32_t (*" << name << ")(" << flat_parameters(f, false) << ") = nullptr;\n";
    load << "  t." << name << " = reinterpret_cast<decltype(t." << name << ")>(find(\"" << name
         << "\", user));\n";
    list << "void " << name << "(answer&);\n";
    cases << "    case calls::" << name << ".id:\n      return {&dispatch::" << name
          << ", &calls::" << name << "};\n";
    write_dispatch(f, out);
    if (++count == functions_per_file) close();
  }
  close();
  table << "};\n\nvoid load(library_table& t, void* (*find)(const char*, void*), void* user);\n\n} "
           " // namespace gpuwire::"
        << api << "\n";
  load << "}\n\n}  // namespace gpuwire::" << api << "\n";
  list << "}  // namespace dispatch\n\nhandler find_handler(std::uint16_t call) {\n  switch (call) "
          "{\n"
       << cases.str()
       << "    default:\n      return {};\n  }\n}\n\n}  // namespace gpuwire::" << api << "\n";
  files[folder + "table.hpp"] = table.str();
  files[folder + "table.cpp"] = load.str();
  files[folder + "dispatch.cpp"] = list.str();
  files[folder + "dispatch.hpp"] =
      flat_banner(p, "//") + "#pragma once\n\n#include <cstdint>\n\n#include \"wire/generated/" +
      api + "/calls.hpp\"\n\nnamespace gpuwire::" + api +
      " {\n\nclass answer;\n\nstruct handler {\n  void (*function)(answer&) = nullptr;\n" +
      "  const call_number* call = nullptr;\n};\n\n// Nothing for a number that no call "
      "has.\nhandler find_handler(std::uint16_t call);\n\n}  // namespace gpuwire::" +
      api + "\n";
  std::string cmake = flat_banner(p, "#") + "set(GPUWIRE_DAEMON_GENERATED_SOURCES_" + api;
  for (const auto& s : sources) cmake += "\n  ${CMAKE_CURRENT_LIST_DIR}/" + s;
  files[folder + "sources.cmake"] = cmake + ")\n";
}

}  // namespace gpuwire::gen
