// SPDX-License-Identifier: Apache-2.0
// Joins the header's declarations and the flat spec: how each parameter travels, which structs are
// needed.
#include <algorithm>
#include <set>

#include "flat.hpp"
#include "text.hpp"

namespace gpuwire::gen {

std::string flat_scalar(const type& t) {
  if (t.cls == type_class::enumeration || t.cls == type_class::integer)
    return std::string("std::") + (t.is_signed ? "int" : "uint") + std::to_string(t.bits) + "_t";
  if (t.cls == type_class::floating) return t.bits == 32 ? "float" : "double";
  return {};
}

namespace {

// "nvmlName_v2_t" gives "nvmlName" if its first field is a version, else nothing.
std::string family_of(const std::string& record, const type& t) {
  if (t.fields.empty() || t.fields[0].name != "version" || !ends_with(record, "_t")) return {};
  int revision = 0;
  const auto stem = record.substr(0, record.size() - 2);
  const auto base = without_revision(stem, revision);
  return base == stem ? std::string() : base;
}

class flat_planner {
 public:
  flat_planner(const flat_spec& spec, const headers& header, problems& wrong)
      : spec_(spec), header_(header), wrong_(wrong) {}

  flat_plan run() {
    out_.spec = &spec_;
    out_.header = &header_;
    for (const auto& [name, record] : header_.records)
      if (const auto family = family_of(name, *record); !family.empty())
        all_families_[family].push_back(name);
    for (const auto& call : spec_.calls) add(call);
    for (const auto& [name, members] : spec_.members)
      if (!done_.count(name.substr(0, name.find('.'))))
        wrong_.add(members[0].at, "no function uses a struct " + name);
    return std::move(out_);
  }

 private:
  void add(const flat_call& call) {
    flat_function f{&call, {}};
    if (call.way == flat_way::call || call.way == flat_way::custom) {
      const auto found = header_.functions.find(call.like.empty() ? call.name : call.like);
      if (found == header_.functions.end())
        return wrong_.add(call.at, "the header has no function " + call.name);
      for (const auto& p : found->second.parameters) f.parameters.push_back(plan(call, p));
      for (auto& p : f.parameters) settle_length(call, f, p);
      for (const auto& [name, words] : call.words)
        if (std::none_of(f.parameters.begin(), f.parameters.end(),
                         [&, n = name](const auto& p) { return p.name == n || p.name == n + "_"; }))
          wrong_.add(words.at, call.name + " has no parameter " + name);
    }
    out_.functions.push_back(std::move(f));
  }

  int kind_of(const type& t) const {
    for (const auto& k : spec_.kinds)
      if (k.handle_type == t.name) return k.number;
    return 0;
  }

  flat_parameter plan(const flat_call& call, const header_parameter& p) {
    flat_parameter out;
    out.name = is_keyword(p.name) ? p.name + "_" : p.name;
    const auto found = call.words.find(p.name);
    const flat_words words = found == call.words.end() ? flat_words{} : found->second;
    out.most = words.most;
    out.prefix = words.prefix;
    out.frees = words.frees;
    const auto& t = *p.what;
    if (t.cls == type_class::opaque) {
      out.form = flat_form::handle;
      out.cpp = "void*";
      out.kind = kind_of(t);
      if (out.kind == 0) wrong_.add(call.at, call.name + ": " + t.name + " is no kind");
    } else if (const auto scalar = flat_scalar(t); !scalar.empty()) {
      out.cpp = scalar;
    } else if (t.cls == type_class::pointer) {
      out.by_pointer = true;
      pointer(call, p, words, out);
    } else {
      wrong_.add(call.at, call.name + ": " + p.name + " of type " + t.spelling + " cannot travel");
    }
    return out;
  }

  void pointer(const flat_call& call, const header_parameter& p, const flat_words& words,
               flat_parameter& out) {
    const auto& t = *p.what->element;
    out.in = words.in || words.inout || t.is_const;
    out.out = words.out || words.inout || !out.in;
    out.kind = t.cls == type_class::opaque ? kind_of(t) : 0;
    out.cpp = t.cls == type_class::opaque ? "void*" : flat_scalar(t);
    if (t.cls == type_class::record) {
      out.cpp = t.record;
      need(call.at, t.record);
    }
    out.length = !words.count.empty()   ? words.count
                 : !words.bytes.empty() ? words.bytes
                                        : words.text;
    out.length_in_bytes = !words.bytes.empty();
    if (out.cpp.empty()) {
      wrong_.add(call.at,
                 call.name + ": " + p.name + " points to " + t.spelling + ", which cannot travel");
    } else if (!words.text.empty()) {
      out.form = flat_form::text;
      out.cpp = "char";
    } else if (!out.length.empty()) {
      out.form = flat_form::array;
      if (t.is_char) out.cpp = "char";
    } else if (t.is_char && t.is_const) {
      out.form = flat_form::cstring;
      out.cpp = "const char";
    } else if (t.cls == type_class::record) {
      const auto family = family_of(t.record, t);
      out.form = family.empty() ? flat_form::structure : flat_form::revisioned;
      if (family.empty()) return;
      out.cpp = family;
      if (!words.in && !t.is_const) out.in = out.out = true;
      if (out_.families.emplace(family, all_families_[family]).second)
        for (const auto& revision : all_families_[family]) need(call.at, revision);
    } else {
      out.form = out.kind != 0 ? flat_form::out_handle : flat_form::out_scalar;
      if (t.is_char)
        wrong_.add(call.at, call.name + ": " + p.name + " needs text(..) or count(..)");
    }
  }

  // A pointer that an array's length is behind is a count: it goes both ways.
  void settle_length(const flat_call& call, flat_function& f, flat_parameter& p) {
    long number = 0;
    if (p.length.empty() || parse_number(p.length, number)) return;
    for (auto& other : f.parameters) {
      if (other.name != p.length) continue;
      p.length_by_pointer = other.by_pointer;
      if (other.by_pointer) {
        other.form = flat_form::count;
        other.in = other.out = true;
      }
      return;
    }
    wrong_.add(call.at, call.name + ": no parameter " + p.length);
  }

  void need(const place& at, const std::string& name) {
    if (!done_.insert(name).second) return;
    const auto found = header_.records.find(name);
    if (found == header_.records.end()) return wrong_.add(at, "no struct " + name);
    for (const auto& field : found->second->fields) {
      const auto* t = field.what.get();
      while (t->cls == type_class::array || t->cls == type_class::pointer) t = t->element.get();
      if (t->cls == type_class::record && !t->record.empty()) need(at, t->record);
    }
    out_.structs.push_back(name);
  }

  const flat_spec& spec_;
  const headers& header_;
  problems& wrong_;
  flat_plan out_;
  std::map<std::string, std::vector<std::string>> all_families_;
  std::set<std::string> done_;
};

}  // namespace

flat_plan make_flat_plan(const flat_spec& spec, const headers& header, problems& wrong) {
  return flat_planner(spec, header, wrong).run();
}

}  // namespace gpuwire::gen
