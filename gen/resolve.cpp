// SPDX-License-Identifier: Apache-2.0
#include "resolve.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include "parameters.hpp"
#include "text.hpp"

namespace gpuwire::gen {
namespace {

std::string where(const place& at) {
  return at.file + ":" + std::to_string(at.line);
}

class planner {
 public:
  planner(const headers& header, specs& spec, problems& wrong)
      : header_(header), spec_(spec), wrong_(wrong), parameters_(spec, plan_.records, wrong) {
    plan_.header = &header;
    plan_.spec = &spec;
  }

  plan make() {
    for (const auto& m : spec_.messages) add_message(m);
    index_calls();
    for (const auto& [name, f] : header_.functions)
      if (!is_variant(name)) add_entry(f);
    for (const auto& h : spec_.headerless) add_headerless(h);
    report_unused();
    check_invalidations();
    check_errors();
    check_exports();
    add_procs();
    for (auto& c : plan_.calls) c->fingerprint = fingerprint(*c);
    std::sort(plan_.calls.begin(), plan_.calls.end(),
              [](const auto& a, const auto& b) { return a->id < b->id; });
    std::stable_sort(plan_.entries.begin(), plan_.entries.end(), [](const auto& a, const auto& b) {
      return std::pair(a.family, a.name) < std::pair(b.family, b.name);
    });
    return std::move(plan_);
  }

 private:
  bool is_variant(const std::string& name) const {
    const auto base = without_per_thread(name);
    return base != name && header_.functions.count(base) != 0;
  }

  bool claim_id(int id, const place& at, const std::string& name) {
    const auto [it, fresh] = ids_.emplace(id, std::pair{at, name});
    char text[16];
    std::snprintf(text, sizeof text, "0x%04x", static_cast<unsigned>(id));
    if (!fresh)
      wrong_.add(at, std::string("id ") + text + " belongs to '" + it->second.second + "', " +
                         where(it->second.first));
    return fresh;
  }

  void add_message(const spec_message& m) {
    if (m.id == -1 || !claim_id(m.id, m.at, m.name)) return;
    if (wire_by_name_.count(m.name))
      return wrong_.add(m.at, "message '" + m.name + "' is there already");
    auto c = std::make_unique<wire_call>();
    c->name = m.name;
    c->family = m.family;
    c->id = m.id;
    c->cls = m.cls;
    c->slow = m.slow;
    c->unsafe = m.unsafe;
    c->request = m.request;
    c->reply = m.reply;
    c->handwritten_daemon = true;
    wire_by_name_[m.name] = c.get();
    plan_.calls.push_back(std::move(c));
  }

  void index_calls() {
    for (auto& c : spec_.calls) {
      const auto [it, fresh] = calls_by_name_.emplace(c.name, &c);
      if (!fresh) wrong_.add(c.at, "'" + c.name + "' has a line already, " + where(it->second->at));
      if (is_variant(c.name)) {
        c.used = true;
        wrong_.add(c.at, "'" + c.name + "' follows '" + without_per_thread(c.name) +
                             "': remove this line");
      }
    }
  }

  spec_refusal* refusal_of(const std::string& name) {
    spec_refusal* best = nullptr;
    for (auto& r : spec_.refusals) {
      const bool pattern = ends_with(r.name, "*");
      const bool fits =
          pattern ? starts_with(name, r.name.substr(0, r.name.size() - 1)) : r.name == name;
      if (!fits) continue;
      if (best && best->name == r.name)
        wrong_.add(r.at, "'" + r.name + "' has a line already, " + where(best->at));
      // A full name wins over every pattern, a longer pattern over a shorter one.
      const auto weight = [](const spec_refusal& x) {
        return ends_with(x.name, "*") ? x.name.size() : std::size_t{1000};
      };
      if (!best || weight(r) > weight(*best)) best = &r;
    }
    return best;
  }

  void add_entry(const header_function& f) {
    entry e;
    e.name = f.name;
    e.function = &f;
    for (const char* suffix : {"_ptds", "_ptsz"})
      if (header_.functions.count(f.name + suffix)) e.variants.push_back(f.name + suffix);
    const auto call = calls_by_name_.find(f.name);
    auto* refusal = refusal_of(f.name);
    if (call != calls_by_name_.end()) {
      auto& c = *call->second;
      c.used = true;
      if (refusal && refusal->name == f.name)
        wrong_.add(refusal->at, "'" + f.name + "' is refused here and real in " + where(c.at));
      if (refusal && refusal->name == f.name) refusal->used = true;
      e.family = c.family;
      e.spec = &c;
      add_call(f, c, e);
    } else if (refusal) {
      refusal->used = true;
      e.family = refusal->family;
      e.reason = refusal->reason;
    } else {
      unnamed(f);
    }
    plan_.entries.push_back(std::move(e));
  }

  void unnamed(const header_function& f) {
    std::vector<std::string> list;
    for (const auto& p : f.parameters) list.push_back(p.what->spelling + " " + p.name);
    wrong_.add("no spec names " + f.name + "(" + join(list, ", ") +
               "); add to a spec one of:\n    call " + f.name + "  id 0xFFNN  called\n    local " +
               f.name + "\n    refuse " + f.name + " \"reason\"");
  }

  void add_call(const header_function& f, spec_call& c, entry& e) {
    if (c.local) {
      e.way = entry_way::local;
      return;
    }
    if (!c.via.empty()) {
      e.way = entry_way::via;
      const auto m = wire_by_name_.find(c.via);
      if (m == wire_by_name_.end())
        wrong_.add(c.at, "no message is called '" + c.via + "'");
      else if (m->second->cls == call_class::push)
        wrong_.add(c.at, "'" + c.via + "' is a push: it comes from the daemon");
      else if (m->second->cls == call_class::notice)
        wrong_.add(c.at, "'" + c.via + "' is a notice: it is no part of the ordered stream");
      else
        e.wire = m->second;
      return;
    }
    e.way = entry_way::call;
    for (const auto& line : c.parameters)
      if (std::none_of(f.parameters.begin(), f.parameters.end(),
                       [&](const auto& p) { return p.name == line.name; }))
        wrong_.add(line.at, c.name + " has no parameter '" + line.name + "'");
    for (const auto& p : f.parameters)
      if (const auto planned = parameters_.plan(c, f, p)) e.parameters.push_back(*planned);
    if (c.id == -1 || !claim_id(c.id, c.at, c.name)) return;
    auto w = std::make_unique<wire_call>();
    w->name = c.name;
    w->family = c.family;
    w->id = c.id;
    w->cls = c.cls;
    w->slow = c.slow;
    w->unsafe = c.unsafe;
    w->handwritten_daemon = c.custom_daemon;
    add_fields(e.parameters, *w);
    e.wire = w.get();
    plan_.calls.push_back(std::move(w));
  }

  void add_headerless(const spec_headerless& h) {
    if (header_.functions.count(h.name))
      return wrong_.add(h.at,
                        "the headers declare " + h.name + ": write 'call', 'local' or 'refuse'");
    entry e;
    e.name = h.name;
    e.family = h.family;
    e.reason = h.reason;
    plan_.entries.push_back(std::move(e));
  }

  void report_unused() {
    for (const auto& c : spec_.calls)
      if (!c.used) wrong_.add(c.at, "the headers have no function " + c.name);
    for (const auto& r : spec_.refusals)
      if (!r.used)
        wrong_.add(r.at, ends_with(r.name, "*")
                             ? "'" + r.name + "' matches no function that is left to refuse"
                         : is_variant(r.name)
                             ? "'" + r.name + "' follows '" + without_per_thread(r.name) +
                                   "': remove this line"
                             : "the headers have no function " + r.name);
  }

  void check_invalidations() {
    for (const auto& c : spec_.calls)
      for (const auto& n : c.invalidates) {
        const auto other = calls_by_name_.find(n);
        const bool call = other != calls_by_name_.end() &&
                          other->second->cls == call_class::cached && other->second->via.empty() &&
                          !other->second->local;
        const bool message = std::any_of(
            spec_.messages.begin(), spec_.messages.end(),
            [&](const auto& m) { return m.name == n && m.cls == call_class::cached; });
        if (!call && !message) wrong_.add(c.at, "'" + n + "' is no cached call and no group");
      }
  }

  void check_errors() {
    for (const auto& [value, name] : header_.results)
      if (!spec_.errors.count(value))
        wrong_.add("no text for " + name + "; add to a spec:\n    error " + std::to_string(value) +
                   " \"text\"");
    for (const auto& [value, text] : spec_.errors)
      if (!header_.results.count(value))
        wrong_.add(text.first, "the headers have no result " + std::to_string(value));
    for (const auto* name : {&spec_.success, &spec_.unsupported, &spec_.malformed})
      if (std::none_of(header_.results.begin(), header_.results.end(),
                       [&](const auto& r) { return r.second == *name; }))
        wrong_.add("'" + *name + "' of the 'result' line is no value of " + spec_.result_type);
  }

  void check_exports() {
    if (spec_.exports.empty()) return;
    std::set<std::string> made;
    for (const auto& e : plan_.entries) {
      made.insert(e.name);
      made.insert(e.variants.begin(), e.variants.end());
    }
    const std::set<std::string> wanted(spec_.exports.begin(), spec_.exports.end());
    for (const auto& n : wanted)
      if (!made.count(n))
        wrong_.add("exports.txt: " + n + " is in no header; add to a spec:\n    headerless " + n +
                   " \"reason\"");
    for (const auto& n : made)
      if (!wanted.count(n)) wrong_.add("exports.txt does not list " + n);
  }

  // The function types carry versions, the symbols carry revisions: both in ascending order they
  // pair up.
  void pair_versions(const std::string& base, const std::vector<int>& versions, bool per_thread) {
    std::map<int, std::string> symbols;
    for (const auto& [name, f] : header_.functions) {
      const auto bare = without_per_thread(name);
      if ((bare != name) != per_thread) continue;
      int revision = 1;
      if (without_revision(bare, revision) == base) symbols[revision] = name;
    }
    if (symbols.size() != versions.size())
      return wrong_.add(base + (per_thread ? " (per-thread stream)" : "") + " has " +
                        std::to_string(versions.size()) +
                        " version(s) among the function types and " +
                        std::to_string(symbols.size()) + " symbol(s)");
    auto version = versions.begin();
    for (const auto& [revision, symbol] : symbols)
      plan_.procs.push_back({base, symbol, *version++, per_thread});
  }

  void add_procs() {
    for (const auto& [base, versions] : header_.versions) pair_versions(base, versions, false);
    for (const auto& [base, versions] : header_.versions_per_thread)
      pair_versions(base, versions, true);
    for (const auto& h : spec_.headerless) {
      if (h.since == 0) continue;
      int revision = 1;
      const auto bare = without_per_thread(h.name);
      plan_.procs.push_back({without_revision(bare, revision), h.name, h.since, bare != h.name});
    }
    std::sort(plan_.procs.begin(), plan_.procs.end(), [](const auto& a, const auto& b) {
      return std::tie(a.base, a.per_thread, a.version) < std::tie(b.base, b.per_thread, b.version);
    });
  }

  std::string described(const wire_field& f) const {
    std::string inner;
    for (const auto& s : spec_.structs)
      if (f.type == "list(" + s.name + ")")
        for (const auto& g : s.fields) inner += described(g) + ";";
    for (const auto& [name, r] : plan_.records)
      if (f.type == "struct(" + name + ")")
        for (const auto& leaf : r.leaves) inner += described(leaf.field) + ";";
    return f.type + (inner.empty() ? "" : "{" + inner + "}") + " " + f.name;
  }

  // FNV-1a over names and types of all fields: two builds that disagree about a call notice it when
  // they meet.
  std::uint64_t fingerprint(const wire_call& c) const {
    std::string text = c.name + "(";
    for (const auto& f : c.request) text += described(f) + ",";
    text += ")->(";
    for (const auto& f : c.reply) text += described(f) + ",";
    text += ")";
    std::uint64_t hash = 14695981039346656037ull;
    for (const unsigned char byte : text) hash = (hash ^ byte) * 1099511628211ull;
    return hash;
  }

  const headers& header_;
  specs& spec_;
  problems& wrong_;
  plan plan_;
  parameter_planner parameters_;
  std::map<int, std::pair<place, std::string>> ids_;
  std::map<std::string, const wire_call*> wire_by_name_;
  std::map<std::string, spec_call*> calls_by_name_;
};

}  // namespace

plan make_plan(const headers& header, specs& spec, problems& wrong) {
  return planner(header, spec, wrong).make();
}

}  // namespace gpuwire::gen
