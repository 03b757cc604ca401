// SPDX-License-Identifier: Apache-2.0
// The server's side: the table of driver functions, one dispatch function for each call, the table
// that finds it.
#include "output.hpp"
#include "text.hpp"

namespace gpuwire::gen {
namespace {

// Everything that one dispatch function needs, in the order in which it is written.
struct dispatch_parts {
  std::string checks, locals, arguments, results;
};

std::string value_name(const parameter_plan& p) {
  return p.name + "_value";
}

std::string native_of(const parameter_plan& p, const std::string& id) {
  const std::string accessor = p.kind->daemon_accessor.empty()
                                   ? "native<handle_kind::" + p.kind->name + ">"
                                   : p.kind->daemon_accessor;
  return "c." + accessor + "(" + id + ")";
}

std::string mint(const parameter_plan& p, const std::string& native) {
  return "c.mint<handle_kind::" + p.kind->name + ">(" + native + ")";
}

std::string fail_length(const plan& whole, const wire_call& c, const std::string& bytes) {
  return "  if (" + bytes +
         " > wire::limits::reply_inline_bytes_max) return c.finish<msg::" + c.name + ">(" +
         whole.spec->malformed + ", {});\n";
}

void add_single(const plan& whole, const parameter_plan& p, dispatch_parts& d) {
  const std::string field = "q." + p.field, value = value_name(p);
  const bool handle = p.how == form::handle;
  const std::string input =
      handle ? native_of(p, field) : "static_cast<" + p.element + ">(" + field + ")";
  if (p.how == form::scalar && !p.by_pointer) {
    d.arguments += input;
    return;
  }
  if (p.how == form::record) {
    d.locals += "  " + p.element + " " + value + "{};\n";
    if (p.in)
      for (const auto& leaf : whole.records.at(p.record).leaves)
        d.locals += "  " + value + "." + leaf.path + " = static_cast<" + leaf.cast + ">(" + field +
                    "." + leaf.field.name + ");\n";
  } else {
    d.locals += std::string("  ") + (p.out ? "" : "const ") + p.element + " " + value +
                (p.in ? " = " + input : "{}") + ";\n";
  }
  const std::string presence = field + (p.in ? "_given" : "_wanted");
  const std::string address =
      p.in && !p.out ? "const_cast<" + p.element + "*>(&" + value + ")" : "&" + value;
  d.arguments += p.by_pointer ? presence + " ? " + address + " : nullptr" : value;
  if (p.frees) d.results += "    c.release<handle_kind::" + p.kind->name + ">(" + field + ");\n";
  if (!p.out) return;
  if (p.how == form::record)
    for (const auto& leaf : whole.records.at(p.record).leaves)
      d.results += "    r." + p.field + "." + leaf.field.name + " = static_cast<" +
                   cpp_type(leaf.field.type) + ">(" + value + "." + leaf.path + ");\n";
  else if (handle)
    d.results += "    if (" + presence + ") r." + p.field + " = " + mint(p, value) + ";\n";
  else
    d.results += "    r." + p.field + " = static_cast<" + cpp_type(p.wire) + ">(" + value + ");\n";
}

// bytes and arrays. An input must have exactly the length that the other fields announce; an output
// has a limit.
void add_sized(const plan& whole, const wire_call& c, const parameter_plan& p, dispatch_parts& d) {
  const std::string field = "q." + p.field, value = value_name(p), n = p.name + "_length";
  const bool array = p.how == form::array;
  d.checks += "  const std::uint64_t " + n + " = " + length_expression(p, "q.") + ";\n";
  if (p.in) {
    d.checks += "  if (" + field + ".size != (" + field + "_given ? " + n +
                " : 0)) return c.malformed();\n";
    if (array && p.kind) {
      d.locals += "  std::vector<" + p.element + "> " + value +
                  ";\n  for (const auto id : " + field + ") " + value + ".push_back(" +
                  native_of(p, "id") + ");\n";
      d.arguments += field + "_given ? " + value + ".data() : nullptr";
    } else if (array) {
      d.locals += "  auto* " + value + " = reinterpret_cast<" + p.element + "*>(const_cast<" +
                  cpp_type(p.wire) + "*>(" + field + ".data));\n";
      d.arguments += field + "_given ? " + value + " : nullptr";
    } else {
      const std::string target = p.element == "void" ? "void" : p.element;
      d.locals += "  auto* " + value + " = static_cast<" + target +
                  "*>(static_cast<void*>(const_cast<std::byte*>(" + field + ".data)));\n";
      d.arguments += field + "_given ? " + value + " : nullptr";
    }
    return;
  }
  const std::string number = array ? cpp_type(p.wire) : "std::byte";
  d.checks += fail_length(whole, c, "wire::length_product(" + n + ", sizeof(" + number + "))");
  const std::string element = array ? p.element : "std::byte";
  // One more than asked for, so that an empty output still has an address, as the caller's has.
  d.locals += "  std::vector<" + element + "> " + value + "(" + n + " + 1);\n";
  const std::string pointer =
      array ? value + ".data()"
            : "static_cast<" + p.element + "*>(static_cast<void*>(" + value + ".data()))";
  d.arguments += field + "_wanted ? " + pointer + " : nullptr";
  if (!array) {
    d.results +=
        "    if (" + field + "_wanted) r." + p.field + " = {" + value + ".data(), " + n + "};\n";
    return;
  }
  d.locals += "  std::vector<" + number + "> " + p.name + "_words(" + n + ");\n";
  d.results += "    for (std::uint64_t i = 0; i < " + n + " && " + field + "_wanted; ++i) " +
               p.name + "_words[i] = " +
               (p.kind ? mint(p, value + "[i]") : "static_cast<" + number + ">(" + value + "[i])") +
               ";\n    if (" + field + "_wanted) r." + p.field + " = {" + p.name +
               "_words.data(), static_cast<std::uint32_t>(" + n + ")};\n";
}

std::string native_dispatch(const plan& whole, const entry& e) {
  dispatch_parts d;
  bool translates = false;
  for (const auto& p : e.parameters) {
    if (!d.arguments.empty()) d.arguments += ", ";
    translates |= p.kind && p.in;
    if (p.how == form::cstring) {
      d.locals += "  const std::string " + value_name(p) + "(q." + p.field + ");\n";
      d.arguments += "q." + p.field + "_given ? " + value_name(p) + ".c_str() : nullptr";
    } else if (p.how == form::bytes || p.how == form::array) {
      add_sized(whole, *e.wire, p, d);
    } else {
      add_single(whole, p, d);
    }
  }
  const std::string finish = "return c.finish<msg::" + e.name + ">(";
  std::string text = d.checks;
  text += "  const auto driver_function = c.driver()." + e.name + ";\n  if (!driver_function) " +
          finish + whole.spec->unsupported + ", {});\n" + d.locals;
  if (translates) text += "  if (c.failed()) " + finish + "c.failure(), {});\n";
  text +=
      "  const " + whole.spec->result_type + " result = driver_function(" + d.arguments + ");\n";
  if (e.wire->reply.empty() && d.results.empty()) return text + "  " + finish + "result, {});\n";
  text += "  msg::" + e.name + "::reply r;\n";
  text += "  if (result == " + whole.spec->success + ") {\n" + d.results + "  }\n  " + finish +
          "result, r);\n";
  return text;
}

std::string dispatch_function(const plan& p, const wire_call& c) {
  std::string text = "outcome " + c.name +
                     "(call_context& c, wire::decoder& in) {\n  msg::" + c.name +
                     "::request q;\n  if (!wire::decode_from(in, q)) return c.malformed();\n";
  const entry* e = nullptr;
  for (const auto& candidate : p.entries)
    if (candidate.way == entry_way::call && candidate.wire == &c) e = &candidate;
  text += c.handwritten_daemon || !e ? "  return custom::" + c.name + "(c, q);\n"
                                     : native_dispatch(p, *e);
  return text + "}\n";
}

std::string guard(const plan& p) {
  std::string text;
  for (const auto& d : p.spec->defines)
    text += "#ifndef " + d + "\n#error \"compile with -D" + d +
            ": every revision is then declared under its own name\"\n#endif\n";
  return text;
}

void write_driver_table(const plan& p, file_set& files) {
  std::string fields, loads;
  for (const auto& [name, f] : p.header->functions) {
    if (without_per_thread(name) != name) continue;
    fields += "  decltype(&::" + name + ") " + name + " = nullptr;\n";
    loads += "  find(table." + name + ", \"" + name + "\");\n";
  }
  files["daemon/generated/driver_table.hpp"] =
      banner(p, "//") +
      "// The driver's functions, found by name at run time. Null: this driver lacks it.\n#pragma "
      "once\n\n" +
      guard(p) + "\n" + header_includes(p) +
      "\nnamespace gpuwire::daemon {\n\nstruct driver_table {\n" + fields +
      "};\n\nvoid load(driver_table& table, void* (*lookup)(const char* name, void* user), void* "
      "user);\n\n"
      "}  // namespace gpuwire::daemon\n";
  files["daemon/generated/driver_table.cpp"] =
      banner(p, "//") +
      "#include \"daemon/generated/driver_table.hpp\"\n\nnamespace gpuwire::daemon {\n\n"
      "void load(driver_table& table, void* (*lookup)(const char* name, void* user), void* user) "
      "{\n"
      "  const auto find = [&](auto& target, const char* name) {\n"
      "    target = reinterpret_cast<std::remove_reference_t<decltype(target)>>(lookup(name, "
      "user));\n  };\n" +
      loads + "}\n\n}  // namespace gpuwire::daemon\n";
  auto& source = files["daemon/generated/driver_table.cpp"];
  source.insert(source.find("\nnamespace"), "\n#include <type_traits>\n");
}

void write_kinds(const plan& p, file_set& files) {
  std::string text =
      banner(p, "//") +
      "// Which of the driver's types each kind of handle stands for.\n#pragma once\n\n" +
      guard(p) + "\n" + header_includes(p) +
      "\n#include \"wire/generated/call_table.hpp\"\n\nnamespace gpuwire::daemon {\n\n"
      "using msg::handle_kind;\n\ntemplate <handle_kind Kind>\nstruct native_type;\n";
  for (const auto& k : p.spec->kinds)
    text += "template <>\nstruct native_type<handle_kind::" + k.name +
            "> {\n  using type = " + k.handle_type + ";\n};\n";
  files["daemon/generated/kinds.hpp"] = text + "\n}  // namespace gpuwire::daemon\n";
}

}  // namespace

void write_daemon(const plan& p, file_set& files) {
  const std::string folder = "daemon/generated/";
  std::vector<std::string> sources = {"driver_table.cpp", "dispatch_table.cpp"};
  std::string custom =
      banner(p, "//") +
      "// Bodies written by hand in daemon/. A missing one is a link error.\n#pragma once\n\n"
      "#include \"daemon/call_context.hpp\"\n#include \"wire/generated/messages.hpp\"\n\n"
      "namespace gpuwire::daemon::custom {\n\n";
  std::string declarations, cases;
  for (const auto& family : p.spec->families) {
    const auto calls = calls_of(p, family);
    if (calls.empty()) continue;
    std::string text =
        banner(p, "//") +
        "#include <string>\n#include <vector>\n\n#include \"daemon/generated/custom.hpp\"\n"
        "#include \"daemon/generated/dispatch.hpp\"\n#include \"daemon/generated/kinds.hpp\"\n"
        "#include \"wire/generated/messages_" +
        family +
        ".hpp\"\n#include \"wire/limits.hpp\"\n\n"
        "namespace gpuwire::daemon::dispatch {\n";
    for (const auto* c : calls) {
      if (c->cls == call_class::push || c->cls == call_class::notice) continue;
      text += "\n" + dispatch_function(p, *c);
      declarations += "outcome " + c->name + "(call_context& c, wire::decoder& in);\n";
      cases += "    case msg::" + c->name + "::call_id: return &dispatch::" + c->name + ";\n";
      if (c->handwritten_daemon)
        custom +=
            "outcome " + c->name + "(call_context& c, const msg::" + c->name + "::request& q);\n";
    }
    files[folder + "dispatch_" + family + ".cpp"] =
        text + "\n}  // namespace gpuwire::daemon::dispatch\n";
    sources.push_back("dispatch_" + family + ".cpp");
  }
  files[folder + "custom.hpp"] = custom + "\n}  // namespace gpuwire::daemon::custom\n";
  files[folder + "dispatch.hpp"] =
      banner(p, "//") +
      "#pragma once\n\n#include <cstdint>\n\n#include \"daemon/call_context.hpp\"\n#include "
      "\"wire/codec.hpp\"\n\n"
      "namespace gpuwire::daemon {\n\nusing handler = outcome (*)(call_context&, "
      "wire::decoder&);\n\n"
      "handler find_handler(std::uint16_t call_id);  // null: unknown\n\nnamespace dispatch {\n\n" +
      declarations + "\n}  // namespace dispatch\n}  // namespace gpuwire::daemon\n";
  files[folder + "dispatch_table.cpp"] =
      banner(p, "//") +
      "#include \"daemon/generated/dispatch.hpp\"\n#include "
      "\"wire/generated/messages.hpp\"\n\nnamespace gpuwire::daemon {\n\n"
      "handler find_handler(std::uint16_t call_id) {\n  switch (call_id) {\n" +
      cases + "    default: return nullptr;\n  }\n}\n\n}  // namespace gpuwire::daemon\n";
  write_driver_table(p, files);
  write_kinds(p, files);
  files[folder + "sources.cmake"] =
      source_list(p, "GPUWIRE_DAEMON_GENERATED_SOURCES",
                  "Compile them with -D" + join(p.spec->defines, " -D") + ".", sources);
}

}  // namespace gpuwire::gen
