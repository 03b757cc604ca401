// SPDX-License-Identifier: Apache-2.0
// The client's side: every exported function. Real ones fill a request, wait for or post it, and
// write the outputs; custom ones call their handwritten body; the rest refuse.
#include "output.hpp"
#include "text.hpp"

namespace gpuwire::gen {
namespace {

struct names {
  std::string request, reply;
};

// Locals of a body must not hide a parameter.
names local_names(const entry& e) {
  names n{"q", "r"};
  for (auto* name : {&n.request, &n.reply})
    for (const auto& p : e.function->parameters)
      if (p.name == *name) *name += "_";
  return n;
}

std::string to_id(const parameter_plan& p, const std::string& value) {
  return (p.kind->shim_accessor.empty() ? "id_of" : p.kind->shim_accessor) + "(" + value + ")";
}

std::string from_id(const parameter_plan& p, const std::string& id) {
  return "handle_from<" + p.element + ">(" + id + ")";
}

std::string refuse_length(const plan& p, const std::string& bytes) {
  return "    if (" + bytes + " > wire::limits::inline_payload_bytes_max) return " +
         p.spec->malformed + ";\n";
}

// The head of a loop whose variable no parameter can be called.
std::string count_up(const parameter_plan& p, const std::string& n, const std::string& indent) {
  const std::string i = p.name + "_index";
  return indent + "for (std::uint64_t " + i + " = 0; " + i + " < " + n + "; ++" + i + ") ";
}

std::string fill_input(const plan& whole, const entry& e, const parameter_plan& p,
                       const std::string& q) {
  const std::string target = q + "." + p.field,
                    given = "    " + target + "_given = " + p.name + " != nullptr;\n";
  const std::string number = cpp_type(p.wire);
  switch (p.how) {
    case form::scalar: {
      const std::string value = (p.by_pointer ? "*" : "") + p.name;
      const std::string cast = " = static_cast<" + number + ">(" +
                               (p.translation.empty() ? value : p.translation + "(" + value + ")") +
                               ");\n";
      return p.by_pointer ? given + "    if (" + p.name + ") " + target + cast
                          : "    " + target + cast;
    }
    case form::handle:
      if (!p.by_pointer) return "    " + target + " = " + to_id(p, p.name) + ";\n";
      return given + "    if (" + p.name + ") " + target + " = " + to_id(p, "*" + p.name) + ";\n";
    case form::record: {
      std::string text = p.by_pointer ? given + "    if (" + p.name + ") {\n" : "";
      for (const auto& leaf : whole.records.at(p.record).leaves)
        text += std::string(p.by_pointer ? "      " : "    ") + target + "." + leaf.field.name +
                " = static_cast<" + cpp_type(leaf.field.type) + ">(" + p.name +
                (p.by_pointer ? "->" : ".") + leaf.path + ");\n";
      return text + (p.by_pointer ? "    }\n" : "");
    }
    case form::cstring:
      return given + "    if (" + p.name + ") " + target + " = " + p.name + ";\n";
    case form::bytes: {
      const std::string n = p.name + "_bytes";
      return given + "    const std::uint64_t " + n + " = " + p.name + " ? " +
             length_expression(p, "") + " : 0;\n" + refuse_length(whole, n) + "    " + target +
             " = {static_cast<const std::byte*>(static_cast<const void*>(" + p.name + ")), " + n +
             "};\n";
    }
    case form::array: {
      const std::string n = p.name + "_count";
      std::string text =
          given + "    const std::uint64_t " + n + " = " + p.name + " ? " +
          length_expression(p, "") + " : 0;\n" +
          refuse_length(whole, "wire::length_product(" + n + ", sizeof(" + number + "))");
      if (p.kind) {
        const std::string at = "[" + p.name + "_index]";
        text += "    std::vector<std::uint64_t> " + p.name + "_ids(" + n + ");\n" +
                count_up(p, n, "    ") + p.name + "_ids" + at + " = " + to_id(p, p.name + at) +
                ";\n";
        return text + "    " + target + " = {" + p.name +
               "_ids.data(), static_cast<std::uint32_t>(" + n + ")};\n";
      }
      return text + "    " + target + " = {reinterpret_cast<const " + number + "*>(" + p.name +
             "), static_cast<std::uint32_t>(" + n + ")};\n";
    }
    case form::custom:
      break;
  }
  return "    static_assert(false, \"" + e.name + " needs a handwritten body\");\n";
}

std::string take_output(const plan& whole, const parameter_plan& p, const std::string& r) {
  const std::string source = r + ".body." + p.field;
  const std::string begin = "      if (" + p.name + ") ";
  switch (p.how) {
    case form::scalar:
      return begin + "*" + p.name + " = static_cast<" + p.element + ">(" + source + ");\n";
    case form::handle:
      return begin + "*" + p.name + " = " + from_id(p, source) + ";\n";
    case form::record: {
      std::string text = begin + "{\n";
      for (const auto& leaf : whole.records.at(p.record).leaves)
        text += "        " + p.name + "->" + leaf.path + " = static_cast<" + leaf.cast + ">(" +
                source + "." + leaf.field.name + ");\n";
      return text + "      }\n";
    }
    case form::bytes:
      return begin + "std::memcpy(" + p.name + ", " + source + ".data, std::min<std::uint64_t>(" +
             source + ".size, " + length_expression(p, "") + "));\n";
    case form::array: {
      const std::string n = p.name + "_count", at = "[" + p.name + "_index]";
      return begin + "{\n        const auto " + n + " = std::min<std::uint64_t>(" + source +
             ".size, " + length_expression(p, "") + ");\n" + count_up(p, n, "        ") + p.name +
             at + " = " +
             (p.kind ? from_id(p, source + at)
                     : "static_cast<" + p.element + ">(" + source + at + ")") +
             ";\n      }\n";
    }
    default:
      return "";
  }
}

bool handwritten(const entry& e) {
  return e.way != entry_way::refused && (e.way != entry_way::call || e.spec->custom_shim);
}

// The answers that a success of this call makes stale.
std::string forget_stale(const entry& e, const std::string& indent) {
  std::string text;
  for (const auto& other : e.spec->invalidates)
    text += indent + "forget_cached(msg::" + other + "::call_id);\n";
  return text;
}

std::string transported_body(const plan& whole, const entry& e) {
  const auto n = local_names(e);
  std::string text = "    msg::" + e.name + "::request " + n.request + ";\n";
  std::string outputs;
  for (const auto& p : e.parameters) {
    if (p.in)
      text += fill_input(whole, e, p, n.request);
    else if (p.by_pointer)
      text += "    " + n.request + "." + p.field + "_wanted = " + p.name + " != nullptr;\n";
    if (p.out) outputs += take_output(whole, p, n.reply);
  }
  outputs += forget_stale(e, "      ");
  const auto cls = e.wire->cls;
  if (cls == call_class::posted || cls == call_class::minted)
    return text + "    return post<msg::" + e.name + ">(" + n.request + ");\n";
  const std::string way = cls == call_class::cached ? "cached_call" : "call";
  text += "    const auto " + n.reply + " = " + way + "<msg::" + e.name + ">(" + n.request + ");\n";
  if (!outputs.empty())
    text +=
        "    if (" + n.reply + ".result == " + whole.spec->success + ") {\n" + outputs + "    }\n";
  return text + "    return " + n.reply + ".result;\n";
}

std::string entered(const plan& whole, const entry& e) {
  const std::string body = handwritten(e) ? "    return custom::" + e.name + "(" + argument_list(e) + ");\n"
                                  : transported_body(whole, e);
  const int code = e.spec->before_init;
  const std::string before = code == 0
                                 ? "enter_anytime(\"" + e.name + "\""
                                 : "enter(\"" + e.name + "\", " + whole.header->results.at(code);
  return "  return " + before + ", [&]() -> " + whole.spec->result_type + " {\n" + body + "  });\n";
}

std::string exported(const plan& p, const std::string& name) {
  return "GPUWIRE_EXPORT " + p.spec->result_type + " " + name;
}

std::string refused_entry(const plan& p, const entry& e) {
  const auto one = [&](const std::string& name) {
    return exported(p, name) + "(" + parameter_list(e, false) + ") { return refuse(\"" + name +
           "\"); }\n";
  };
  std::string text = one(e.name);
  for (const auto& v : e.variants) text += one(v);
  return text;
}

std::string real_entry(const plan& p, const entry& e) {
  const std::string parameters = "(" + parameter_list(e, true) + ")";
  if (e.variants.empty()) return exported(p, e.name) + parameters + " {\n" + entered(p, e) + "}\n";
  const std::string call = "body_" + e.name + "(" + argument_list(e) + ")";
  std::string text = "static " + p.spec->result_type + " body_" + e.name + parameters + " {\n" +
                     entered(p, e) + "}\n";
  text += exported(p, e.name) + parameters + " { return " + call + "; }\n";
  for (const auto& v : e.variants)
    text += exported(p, v) + parameters +
            " {\n  const per_thread_default_stream_scope scope;\n  return " + call + ";\n}\n";
  return text;
}

}  // namespace

void write_shim(const plan& p, file_set& files) {
  const std::string folder = "shim/generated/";
  std::vector<std::string> sources = {"error_table.cpp", "proc_table.cpp"};
  std::string custom = banner(p, "//") +
                       "// Bodies written by hand in shim/. A missing one is a link "
                       "error.\n#pragma once\n\n" +
                       header_includes(p) +
                       "\n#include \"shim/entry.hpp\"\n\n"
                       "namespace gpuwire::shim::custom {\n";
  for (const auto& family : p.spec->families) {
    const auto entries = entries_of(p, family);
    if (entries.empty()) continue;
    std::string text =
        banner(p, "//") + header_includes(p) +
        "\n#include <algorithm>\n#include <cstring>\n#include <vector>\n\n#include "
        "\"shim/entry.hpp\"\n"
        "#include \"shim/generated/custom.hpp\"\n#include \"wire/generated/messages.hpp\"\n"
        "#include \"wire/limits.hpp\"\n\nnamespace gpuwire::shim {\n\nextern \"C\" {\n\n";
    std::string declarations, stale;
    for (const auto* e : entries) {
      text += e->way == entry_way::refused ? refused_entry(p, *e) : real_entry(p, *e) + "\n";
      if (e->spec && e->spec->custom_shim)
        declarations +=
            p.spec->result_type + " " + e->name + "(" + parameter_list(*e, true) + ");\n";
      // Only the handwritten body knows whether it changed anything.
      if (handwritten(*e) && !e->spec->invalidates.empty()) {
        declarations += "void forget_after_" + e->name + "();\n";
        stale += "void forget_after_" + e->name + "() {\n" + forget_stale(*e, "  ") + "}\n";
      }
    }
    if (!stale.empty()) stale = "\nnamespace custom {\n" + stale + "}  // namespace custom\n";
    if (!declarations.empty()) custom += "\n// " + family + "\n" + declarations;
    files[folder + "entries_" + family + ".cpp"] =
        text + "\n}  // extern \"C\"\n" + stale + "\n}  // namespace gpuwire::shim\n";
    sources.push_back("entries_" + family + ".cpp");
  }
  files[folder + "custom.hpp"] = custom + "\n}  // namespace gpuwire::shim::custom\n";
  files[folder + "sources.cmake"] =
      source_list(p, "GPUWIRE_SHIM_GENERATED_SOURCES",
                  "Compile them with -D" + join(p.spec->defines, " -D") + ".", sources);
}

}  // namespace gpuwire::gen
