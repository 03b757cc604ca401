// SPDX-License-Identifier: Apache-2.0
#include "parameters.hpp"

#include <algorithm>

#include "text.hpp"

namespace gpuwire::gen {
namespace {

constexpr std::size_t record_leaves_max = 64;

// Why a record cannot be taken apart, or nothing.
std::string flatten(const type& t, const std::string& path, const std::string& field,
                    std::vector<record_leaf>& leaves) {
  switch (t.cls) {
    case type_class::integer:
    case type_class::floating:
    case type_class::enumeration:
      leaves.push_back({path, t.name, {wire_scalar(t), field}});
      return leaves.size() > record_leaves_max ? "it has too many fields" : "";
    case type_class::record:
      for (const auto& f : t.fields) {
        const auto why = flatten(*f.what, path.empty() ? f.name : path + "." + f.name,
                                 field.empty() ? f.name : field + "_" + f.name, leaves);
        if (!why.empty()) return why;
      }
      return t.fields.empty() ? "its fields are not known" : "";
    case type_class::array:
      for (std::int64_t i = 0; i < t.count; ++i) {
        const auto n = std::to_string(i);
        const auto why = flatten(*t.element, path + "[" + n + "]", field + "_" + n, leaves);
        if (!why.empty()) return why;
      }
      return "";
    case type_class::record_union:
      return "it holds a union (" + path + ")";
    case type_class::opaque:
      return "it holds a handle (" + path + ")";
    default:
      return "it holds a pointer (" + path + ")";
  }
}

std::string field_name(const std::string& name) {
  return is_keyword(name) ? name + "_" : name;
}

}  // namespace

std::string wire_scalar(const type& t) {
  switch (t.cls) {
    case type_class::floating:
      return "f" + std::to_string(t.bits);
    case type_class::integer:
    case type_class::enumeration:
      return (t.is_signed ? "i" : "u") + std::to_string(t.bits);
    case type_class::opaque:
      return "u64";
    default:
      return "";
  }
}

void parameter_planner::refuse(const spec_call& call, const header_parameter& p,
                               const std::string& why, const std::vector<std::string>& lines) {
  std::string text = call.name + ": parameter '" + p.name + "' (" + p.what->spelling + ") " + why;
  if (!lines.empty())
    text += lines.size() == 1 ? "; add below the call:" : "; add below the call one of:";
  for (const auto& line : lines) text += "\n    " + p.name + "  " + line;
  wrong_.add(call.at, text);
}

const spec_kind* parameter_planner::kind_of_type(const std::string& handle_type) const {
  for (const auto& k : spec_.kinds)
    if (k.handle_type == handle_type) return &k;
  return nullptr;
}

const spec_kind* parameter_planner::kind_named(const std::string& name) const {
  for (const auto& k : spec_.kinds)
    if (k.name == name) return &k;
  return nullptr;
}

bool parameter_planner::scalar(const spec_call& call, const header_parameter& p, const type& t,
                               const spec_parameter& line, parameter_plan& out) {
  out.element = t.name;
  out.wire = wire_scalar(t);
  if (!line.kind.empty()) {
    out.kind = kind_named(line.kind);
    if (!out.kind) wrong_.add(line.at, "no kind is called '" + line.kind + "'");
  } else if (t.cls == type_class::opaque) {
    out.kind = kind_of_type(t.name);
    if (!out.kind)
      wrong_.add(call.at,
                 call.name + ": parameter '" + p.name + "' (" + p.what->spelling +
                     ") is a handle of no known kind; add to the specs:\n    kind NAME NUMBER " +
                     t.name);
  }
  if (const auto found = spec_.translated.find(t.name); found != spec_.translated.end()) {
    if (out.out || !line.count.empty()) {
      refuse(call, p, "holds a number that the shim translates: it can only be a single 'in'", {});
      return false;
    }
    out.translation = found->second;
  }
  const bool handle = t.cls == type_class::opaque || !line.kind.empty();
  out.how = handle ? form::handle : form::scalar;
  return !handle || out.kind;
}

bool parameter_planner::record(const spec_call& call, const header_parameter& p, const type& t,
                               parameter_plan& out) {
  record_plan r{t.name, {}};
  const auto why = flatten(t, "", "", r.leaves);
  if (!why.empty()) {
    refuse(call, p, "cannot be taken apart: " + why, {"in custom", "out custom"});
    return false;
  }
  out.how = form::record;
  out.element = out.record = t.name;
  records_.emplace(r.name, r);
  return true;
}

std::optional<parameter_plan> parameter_planner::by_value(const spec_call& call,
                                                          const header_parameter& p,
                                                          const spec_parameter& line) {
  parameter_plan out;
  out.in = true;
  out.frees = line.frees;
  const auto& t = *p.what;
  if (line.out || line.cstring || !line.count.empty() || !line.bytes.empty()) {
    refuse(call, p, "is passed by value: it is 'in' and has no length", {});
    return std::nullopt;
  }
  switch (t.cls) {
    case type_class::integer:
    case type_class::floating:
    case type_class::enumeration:
    case type_class::opaque:
      if (!scalar(call, p, t, line, out)) return std::nullopt;
      break;
    case type_class::record:
      if (!record(call, p, t, out)) return std::nullopt;
      break;
    case type_class::function:
      refuse(call, p, "is a callback", {"in custom"});
      return std::nullopt;
    default:
      refuse(call, p, "cannot be taken apart", {"in custom"});
      return std::nullopt;
  }
  if (out.frees && out.how != form::handle) {
    refuse(call, p, "is no handle: 'frees' says nothing here", {});
    return std::nullopt;
  }
  return out;
}

bool parameter_planner::lengths(const spec_call& call, const header_function& f,
                                const spec_parameter& line, const std::string& text,
                                parameter_plan& out) {
  out.lengths = split(text, "*");
  if (out.lengths.empty() || out.lengths.size() > 2) {
    wrong_.add(line.at, "a length is a parameter, a number, or one product of two");
    return false;
  }
  for (const auto& factor : out.lengths) {
    long number = 0;
    const auto found = std::find_if(f.parameters.begin(), f.parameters.end(), [&](const auto& q) {
      return q.name == factor && q.what->cls == type_class::integer;
    });
    if (found == f.parameters.end() && !(parse_number(factor, number) && number > 0)) {
      wrong_.add(line.at, "'" + factor + "' is no integer parameter of " + call.name);
      return false;
    }
  }
  return true;
}

std::optional<parameter_plan> parameter_planner::by_pointer(const spec_call& call,
                                                            const header_function& f,
                                                            const header_parameter& p,
                                                            const spec_parameter& line) {
  parameter_plan out;
  out.by_pointer = true;
  const auto& e = *p.what->element;
  out.in = line.in || (!line.out && e.is_const);
  out.out = line.out || (!line.in && !e.is_const);
  if (out.out && e.is_const) {
    refuse(call, p, "points to constants: it cannot be 'out'", {});
    return std::nullopt;
  }
  if (line.cstring) {
    if (!e.is_char || out.out) {
      refuse(call, p, "is no text that goes in: 'cstring' says nothing here", {});
      return std::nullopt;
    }
    out.how = form::cstring;
    return out;
  }
  if (line.bytes.empty() && line.count.empty()) return without_length(call, p, line, out);
  if (out.in && out.out) {
    refuse(call, p, "cannot go both ways with a length", {"inout custom"});
    return std::nullopt;
  }
  if (!line.bytes.empty()) {
    out.how = form::bytes;
    out.element = e.name;
    if (!lengths(call, f, line, line.bytes, out)) return std::nullopt;
    return out;
  }
  if (wire_scalar(e).empty()) {
    refuse(call, p, "has elements that are no scalars", {"in custom", "out custom"});
    return std::nullopt;
  }
  if (!scalar(call, p, e, line, out) || !lengths(call, f, line, line.count, out))
    return std::nullopt;
  out.how = form::array;
  return out;
}

std::optional<parameter_plan> parameter_planner::without_length(const spec_call& call,
                                                                const header_parameter& p,
                                                                const spec_parameter& line,
                                                                parameter_plan out) {
  const auto& e = *p.what->element;
  switch (e.cls) {
    case type_class::record:
      if (!record(call, p, e, out)) return std::nullopt;
      return out;
    case type_class::integer:
    case type_class::floating:
    case type_class::enumeration:
    case type_class::opaque:
      if (e.is_const && e.is_char) {
        refuse(call, p, "may be text or an array", {"in cstring", "in bytes(LENGTH)"});
        return std::nullopt;
      }
      if (e.is_char && !line.in && !line.out) {
        refuse(call, p, "has no length", {"out bytes(LENGTH)"});
        return std::nullopt;
      }
      if (e.is_const && !line.in) {
        refuse(call, p, "may be one value or an array", {"in", "in count(COUNT)"});
        return std::nullopt;
      }
      if (!scalar(call, p, e, line, out)) return std::nullopt;
      return out;
    case type_class::nothing:
      if (e.is_const)
        refuse(call, p, "has neither type nor length", {"in bytes(LENGTH)", "in custom"});
      else
        refuse(call, p, "has neither type nor length",
               {"in bytes(LENGTH)", "out bytes(LENGTH)", "out custom"});
      return std::nullopt;
    case type_class::pointer:
    case type_class::function:
      refuse(call, p, "points to pointers", {"in custom", "out custom"});
      return std::nullopt;
    case type_class::record_union:
      refuse(call, p, "points to a union", {"in custom", "out custom"});
      return std::nullopt;
    default:
      refuse(call, p, "is not understood", {"in custom", "out custom"});
      return std::nullopt;
  }
}

std::optional<parameter_plan> parameter_planner::plan(const spec_call& call,
                                                      const header_function& f,
                                                      const header_parameter& p) {
  spec_parameter line;
  for (const auto& l : call.parameters)
    if (l.name == p.name) line = l;
  std::optional<parameter_plan> out;
  if (line.custom) {
    if (!call.custom_shim || !call.custom_daemon) {
      wrong_.add(line.at,
                 "a custom parameter needs 'custom shim daemon' on the line of " + call.name);
      return std::nullopt;
    }
    out = parameter_plan{};
    out->how = form::custom;
    out->in = line.in || !line.out;
    out->out = line.out;
  } else if (p.what->cls == type_class::pointer) {
    out = by_pointer(call, f, p, line);
  } else {
    out = by_value(call, p, line);
  }
  if (!out) return out;
  out->name = p.name;
  out->field = field_name(p.name);
  out->declared = p.what->spelling;
  if (out->out && (call.cls == call_class::posted || call.cls == call_class::minted)) {
    wrong_.add(call.at, call.name + ": parameter '" + p.name +
                            "' is an answer, but nobody waits for a " + to_string(call.cls) +
                            " call; make it 'called' or write 'via MESSAGE custom shim'");
    return std::nullopt;
  }
  return out;
}

void add_fields(const std::vector<parameter_plan>& parameters, wire_call& out) {
  std::vector<wire_field> late_request, late_reply;
  for (const auto& p : parameters) {
    std::string type_word = p.wire;
    if (p.how == form::record) type_word = "struct(" + p.record + ")";
    if (p.how == form::cstring) type_word = "text";
    if (p.how == form::bytes || p.how == form::custom) type_word = "bytes";
    if (p.how == form::array) type_word = "array(" + p.wire + ")";
    const bool payload = type_word == "bytes";
    if (p.in) {
      if (p.by_pointer) out.request.push_back({"bool", p.field + "_given"});
      (payload ? late_request : out.request).push_back({type_word, p.field});
    }
    if (p.out) {
      if (p.by_pointer && !p.in) out.request.push_back({"bool", p.field + "_wanted"});
      (payload ? late_reply : out.reply).push_back({type_word, p.field});
    }
  }
  out.request.insert(out.request.end(), late_request.begin(), late_request.end());
  out.reply.insert(out.reply.end(), late_reply.begin(), late_reply.end());
}

}  // namespace gpuwire::gen
