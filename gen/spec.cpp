// SPDX-License-Identifier: Apache-2.0
#include "spec.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "text.hpp"

namespace gpuwire::gen {
namespace {

// A line cut into words. A quoted text is one word that keeps its opening quote; "name(a, b)" is
// one word without blanks.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::size_t i = 0;
  while (i < line.size()) {
    if (line[i] == ' ' || line[i] == '\t') {
      ++i;
    } else if (line[i] == '#') {
      break;
    } else if (line[i] == '"') {
      const auto end = std::min(line.find('"', i + 1), line.size());
      words.push_back(line.substr(i, end - i));
      i = end + 1;
    } else {
      std::string word;
      bool inside = false;
      for (; i < line.size() && (inside || (line[i] != ' ' && line[i] != '\t' && line[i] != '#'));
           ++i) {
        if (line[i] == '(') inside = true;
        if (line[i] == ')') inside = false;
        if (line[i] != ' ') word += line[i];
      }
      words.push_back(word);
    }
  }
  return words;
}

// "count(n)" with head "count" gives "n".
std::optional<std::string> argument_of(const std::string& word, const std::string& head) {
  if (!starts_with(word, head + "(") || !ends_with(word, ")")) return std::nullopt;
  return word.substr(head.size() + 1, word.size() - head.size() - 2);
}

class reader {
 public:
  reader(specs& out, problems& wrong) : out_(out), wrong_(wrong) {}

  void read(const std::filesystem::path& path) {
    family_ = path.stem().string();
    at_.file = path.filename().string();
    at_.line = 0;
    call_ = nullptr;
    struct_ = nullptr;
    message_ = nullptr;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      ++at_.line;
      const auto words = words_of(line);
      if (words.empty()) continue;
      if (line[0] == ' ' || line[0] == '\t')
        inner(words);
      else
        outer(words);
    }
  }

  void expand_groups() {
    for (auto& c : out_.calls) {
      std::vector<std::string> names;
      for (const auto& n : c.invalidates) {
        const auto group = groups_.find(n);
        if (group == groups_.end())
          names.push_back(n);
        else
          names.insert(names.end(), group->second.begin(), group->second.end());
      }
      c.invalidates = names;
    }
  }

 private:
  void bad(const std::string& text) { wrong_.add(at_, text); }

  void used_family() {
    if (std::find(out_.families.begin(), out_.families.end(), family_) == out_.families.end())
      out_.families.push_back(family_);
  }

  bool needs(const std::vector<std::string>& w, std::size_t count, const char* usage) {
    if (w.size() >= count) return true;
    bad("'" + w[0] + "' is incomplete; write: " + usage);
    return false;
  }

  void outer(const std::vector<std::string>& w) {
    call_ = nullptr;
    struct_ = nullptr;
    message_ = nullptr;
    const auto& head = w[0];
    if (head == "call")
      call(w);
    else if (head == "local")
      local(w);
    else if (head == "refuse")
      refuse(w);
    else if (head == "headerless")
      headerless(w);
    else if (head == "message")
      message(w);
    else if (head == "struct")
      structure(w);
    else if (head == "kind")
      kind(w);
    else if (head == "error")
      error(w);
    else if (head == "group")
      group(w);
    else if (head == "translate")
      translate(w);
    else if (!setting(w))
      bad("unknown word '" + head + "'");
  }

  bool setting(const std::vector<std::string>& w) {
    if (w[0] == "result") {
      result(w);
      return true;
    }
    std::string* target = w[0] == "version_macro"    ? &out_.version_macro
                          : w[0] == "functions"      ? &out_.function_prefix
                          : w[0] == "function_types" ? &out_.function_type_prefix
                                                     : nullptr;
    auto* list = w[0] == "header"           ? &out_.header_files
                 : w[0] == "version_header" ? &out_.version_header_files
                 : w[0] == "define"         ? &out_.defines
                                            : nullptr;
    if (!target && !list) return false;
    if (w.size() != 2)
      bad("'" + w[0] + "' takes one word");
    else if (target)
      *target = w[1];
    else
      list->push_back(w[1]);
    return true;
  }

  void result(const std::vector<std::string>& w) {
    if (w.size() != 8 || w[2] != "success" || w[4] != "unsupported" || w[6] != "malformed")
      return bad("write: result TYPE success NAME unsupported NAME malformed NAME");
    out_.result_type = w[1];
    out_.success = w[3];
    out_.unsupported = w[5];
    out_.malformed = w[7];
  }

  void group(const std::vector<std::string>& w) {
    if (needs(w, 3, "group NAME CALL...")) groups_[w[1]].assign(w.begin() + 2, w.end());
  }

  void translate(const std::vector<std::string>& w) {
    if (w.size() != 4 || w[2] != "shim") return bad("write: translate TYPE shim FUNCTION");
    out_.translated[w[1]] = w[3];
  }

  void kind(const std::vector<std::string>& w) {
    if (!needs(w, 4, "kind NAME NUMBER HANDLE_TYPE [shim ACCESSOR] [daemon ACCESSOR]")) return;
    spec_kind k{at_, w[1], 0, w[3], "", ""};
    long number = 0;
    if (!parse_number(w[2], number) || number < 1 || number > 255)
      return bad("a kind's number is 1 to 255");
    k.number = static_cast<int>(number);
    for (std::size_t i = 4; i < w.size(); i += 2) {
      if (i + 1 < w.size() && w[i] == "shim")
        k.shim_accessor = w[i + 1];
      else if (i + 1 < w.size() && w[i] == "daemon")
        k.daemon_accessor = w[i + 1];
      else
        return bad("unknown word '" + w[i] + "' after a kind");
    }
    for (const auto& other : out_.kinds) {
      if (other.number == k.number)
        return bad("kind number " + w[2] + " is taken by '" + other.name + "'");
      if (other.name == k.name) return bad("kind '" + k.name + "' is there already");
    }
    out_.kinds.push_back(k);
  }

  void error(const std::vector<std::string>& w) {
    long number = 0;
    if (w.size() != 3 || !parse_number(w[1], number) || w[2][0] != '"')
      return bad("write: error NUMBER \"text\"");
    if (!out_.errors.emplace(number, std::pair{at_, w[2].substr(1)}).second)
      bad("error " + w[1] + " is there already, " + out_.errors[number].first.file + ":" +
          std::to_string(out_.errors[number].first.line));
  }

  void refuse(const std::vector<std::string>& w) {
    if (w.size() != 3 || w[2][0] != '"' || w[2].size() < 2)
      return bad("write: refuse NAME|PREFIX* \"reason\"");
    used_family();
    out_.refusals.push_back({at_, w[1], family_, w[2].substr(1), false});
  }

  void headerless(const std::vector<std::string>& w) {
    long since = 0;
    const bool dated = w.size() == 5 && w[2] == "since" && parse_number(w[3], since);
    if (!(dated || w.size() == 3) || w.back()[0] != '"')
      return bad("write: headerless NAME [since VERSION] \"reason\"");
    used_family();
    out_.headerless.push_back({at_, w[1], family_, w.back().substr(1), static_cast<int>(since)});
  }

  bool call_class_word(const std::string& word, call_class& cls) {
    for (const auto c : {call_class::called, call_class::cached, call_class::posted,
                         call_class::minted, call_class::bulk, call_class::push,
                         call_class::notice})
      if (word == to_string(c)) {
        cls = c;
        return true;
      }
    return false;
  }

  // "id N" at position i; moves i to the number.
  bool id_word(const std::vector<std::string>& w, std::size_t& i, int& id) {
    long number = 0;
    if (w[i] != "id") return false;
    if (i + 1 == w.size() || !parse_number(w[i + 1], number) || number < 1 || number > 0xffff) {
      bad("'id' needs a number from 0x0001 to 0xffff");
      number = -1;
    }
    id = static_cast<int>(number);
    ++i;
    return true;
  }

  bool before_init_word(const std::vector<std::string>& w, std::size_t& i, spec_call& c) {
    long number = 0;
    if (w[i] != "before_init") return false;
    if (i + 1 == w.size() || !parse_number(w[i + 1], number))
      bad("'before_init' needs a result code");
    c.before_init = static_cast<int>(number);
    ++i;
    return true;
  }

  void local(const std::vector<std::string>& w) {
    if (!needs(w, 2, "local NAME [before_init N]")) return;
    used_family();
    spec_call c;
    c.at = at_;
    c.name = w[1];
    c.family = family_;
    c.local = c.custom_shim = true;
    for (std::size_t i = 2; i < w.size(); ++i)
      if (!before_init_word(w, i, c)) bad("unknown word '" + w[i] + "' after a local function");
    out_.calls.push_back(c);
  }

  void call(const std::vector<std::string>& w) {
    if (!needs(w, 3, "call NAME id 0xFFNN CLASS ... or call NAME via MESSAGE custom shim")) return;
    used_family();
    spec_call c;
    c.at = at_;
    c.name = w[1];
    c.family = family_;
    bool classed = false, custom = false;
    for (std::size_t i = 2; i < w.size(); ++i) {
      const auto& word = w[i];
      const bool side = word == "shim" || word == "daemon";
      if (word == "slow")
        c.slow = true;
      else if (word == "unsafe")
        c.unsafe = true;
      else if (word == "custom")
        custom = true;
      else if (side && custom)
        (word == "shim" ? c.custom_shim : c.custom_daemon) = true;
      else if (word == "via" && i + 1 < w.size())
        c.via = w[++i];
      else if (const auto names = argument_of(word, "invalidates"))
        c.invalidates = split(*names, ",");
      else if (call_class_word(word, c.cls))
        classed = true;
      else if (!id_word(w, i, c.id) && !before_init_word(w, i, c))
        bad("unknown word '" + word + "' after a call");
    }
    if (custom && !c.custom_shim && !c.custom_daemon)
      bad("'custom' needs 'shim', 'daemon' or both");
    if (!c.via.empty()) {
      if (c.id != -1 || classed) bad("a call via a message has no id and no class of its own");
      if (!c.custom_shim || c.custom_daemon)
        bad("a call via a message is 'custom shim' and nothing else");
    } else if (c.id == -1 || !classed) {
      bad("'" + c.name + "' needs 'id 0xFFNN' and a class: called, cached, posted, minted or bulk");
    }
    out_.calls.push_back(c);
    call_ = &out_.calls.back();
  }

  void message(const std::vector<std::string>& w) {
    if (!needs(w, 5, "message NAME id 0x00NN CLASS")) return;
    used_family();
    spec_message m;
    m.at = at_;
    m.name = w[1];
    m.family = family_;
    for (std::size_t i = 2; i < w.size(); ++i) {
      if (w[i] == "slow")
        m.slow = true;
      else if (w[i] == "unsafe")
        m.unsafe = true;
      else if (!id_word(w, i, m.id) && !call_class_word(w[i], m.cls))
        bad("unknown word '" + w[i] + "' after a message");
    }
    if (m.id == -1) bad("message '" + m.name + "' needs 'id 0x00NN'");
    out_.messages.push_back(m);
    message_ = &out_.messages.back();
  }

  void structure(const std::vector<std::string>& w) {
    if (!needs(w, 2, "struct NAME")) return;
    out_.structs.push_back({at_, w[1], {}});
    struct_ = &out_.structs.back();
  }

  bool known_type(const std::string& t) {
    static const auto scalars = split("u8 u16 u32 u64 i8 i16 i32 i64 f32 f64", " ");
    const auto scalar = [&](const std::string& s) {
      return std::find(scalars.begin(), scalars.end(), s) != scalars.end();
    };
    if (scalar(t) || t == "bool" || t == "text" || t == "bytes") return true;
    if (const auto element = argument_of(t, "array")) return scalar(*element);
    const auto list = argument_of(t, "list");
    return list && std::any_of(out_.structs.begin(), out_.structs.end(),
                               [&](const auto& s) { return s.name == *list; });
  }

  void field(const std::string& type_word, const std::string& name,
             std::vector<wire_field>& fields) {
    if (!known_type(type_word)) return bad("unknown field type '" + type_word + "'");
    if (!is_identifier(name) || is_keyword(name))
      return bad("'" + name + "' cannot be the name of a field");
    if (std::any_of(fields.begin(), fields.end(), [&](const auto& f) { return f.name == name; }))
      return bad("field '" + name + "' is there already");
    fields.push_back({type_word, name});
  }

  void inner(const std::vector<std::string>& w) {
    if (struct_) {
      if (w.size() != 2) return bad("write: TYPE NAME");
      field(w[0], w[1], struct_->fields);
    } else if (message_) {
      if (w.size() != 3 || (w[0] != "in" && w[0] != "out")) return bad("write: in|out TYPE NAME");
      if (w[0] == "out" && message_->cls != call_class::called &&
          message_->cls != call_class::cached)
        return bad("only a called or cached message has an answer");
      field(w[1], w[2], w[0] == "in" ? message_->request : message_->reply);
    } else if (call_) {
      parameter(w);
    } else {
      bad("an indented line belongs to a call, a message or a struct");
    }
  }

  void parameter(const std::vector<std::string>& w) {
    spec_parameter p;
    p.at = at_;
    p.name = w[0];
    for (std::size_t i = 1; i < w.size(); ++i) {
      const auto& word = w[i];
      bool known = true;
      if (word == "in")
        p.in = true;
      else if (word == "out")
        p.out = true;
      else if (word == "inout")
        p.in = p.out = true;
      else if (word == "cstring")
        p.cstring = true;
      else if (word == "custom")
        p.custom = true;
      else if (word == "frees")
        p.frees = true;
      else
        known = false;
      const std::pair<const char*, std::string*> with_argument[] = {
          {"count", &p.count}, {"bytes", &p.bytes}, {"handle", &p.kind}};
      for (const auto& [head, target] : with_argument)
        if (const auto argument = argument_of(word, head)) {
          *target = *argument;
          known = !argument->empty();
        }
      if (!known) bad("unknown word '" + word + "' after a parameter");
    }
    for (const auto& other : call_->parameters)
      if (other.name == p.name) return bad("parameter '" + p.name + "' has a line already");
    call_->parameters.push_back(p);
  }

  specs& out_;
  problems& wrong_;
  std::string family_;
  place at_;
  spec_call* call_ = nullptr;
  spec_struct* struct_ = nullptr;
  spec_message* message_ = nullptr;
  std::map<std::string, std::vector<std::string>> groups_;
};

}  // namespace

const char* to_string(call_class c) {
  switch (c) {
    case call_class::called:
      return "called";
    case call_class::cached:
      return "cached";
    case call_class::posted:
      return "posted";
    case call_class::minted:
      return "minted";
    case call_class::bulk:
      return "bulk";
    case call_class::push:
      return "push";
    case call_class::notice:
      return "notice";
  }
  return "";
}

void problems::add(const place& at, const std::string& text) {
  lines_.push_back(at.file + ":" + std::to_string(at.line) + ": " + text);
}

specs read_specs(const std::filesystem::path& folder, problems& wrong) {
  specs out;
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(folder))
    for (const auto& f : std::filesystem::directory_iterator(folder))
      if (f.path().extension() == ".spec") files.push_back(f.path());
  std::sort(files.begin(), files.end());
  if (files.empty()) wrong.add("no *.spec file in " + folder.string());
  reader r(out, wrong);
  for (const auto& f : files) r.read(f);
  r.expand_groups();
  if (out.header_files.empty() || out.result_type.empty())
    wrong.add("the specs name no header, or no 'result' line");
  std::ifstream exports(folder / "exports.txt");
  for (std::string line; std::getline(exports, line);)
    if (!line.empty()) out.exports.push_back(line);
  return out;
}

}  // namespace gpuwire::gen
