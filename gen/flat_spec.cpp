// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <set>

#include "flat.hpp"
#include "text.hpp"

namespace gpuwire::gen {
namespace {

class flat_reader {
 public:
  flat_reader(flat_spec& out, problems& wrong) : out_(out), wrong_(wrong) {}

  void read(const std::filesystem::path& path) {
    at_.file = path.filename().string();
    std::ifstream in(path);
    if (!in) wrong_.add("cannot read " + path.string());
    for (std::string line; std::getline(in, line);) {
      ++at_.line;
      const bool indented = !line.empty() && line[0] == ' ';
      const auto quote = line.find('"');
      text_ = quote == std::string::npos ? "" : line.substr(quote + 1, line.rfind('"') - quote - 1);
      auto words = split(line.substr(0, std::min(line.find('#'), quote)), " \t");
      if (words.empty()) continue;
      if (indented)
        parameter(words);
      else
        statement(words);
    }
  }

 private:
  void statement(const std::vector<std::string>& w) {
    open_ = false;
    const auto& what = w[0];
    if (what == "api" && w.size() == 2)
      out_.api = w[1];
    else if (what == "header" && w.size() == 2)
      out_.header = w[1];
    else if (what == "define" && w.size() == 2)
      out_.reading.defines.push_back(w[1]);
    else if (what == "functions" && w.size() == 2)
      out_.reading.function_prefix = w[1];
    else if (what == "result" && w.size() == 2)
      out_.reading.result_type = w[1];
    else if (what == "kind" && w.size() == 4)
      kind(w);
    else if (what == "member" && w.size() == 4)
      member(w);
    else if ((what == "call" || what == "custom") && w.size() >= 4)
      call(w);
    else if (what == "local" && w.size() == 2)
      plain(w[1], flat_way::local);
    else if (what == "refuse" && w.size() == 2)
      plain(w[1], flat_way::refused);
    else
      wrong_.add(at_, "'" + join(w, " ") + "' is no statement of this language");
  }

  void kind(const std::vector<std::string>& w) {
    long number = 0;
    if (!parse_number(w[2], number) || number < 1 || number > 255)
      return wrong_.add(at_, "the number of a kind is between 1 and 255");
    out_.kinds.push_back({w[1], w[3], static_cast<int>(number)});
  }

  void member(const std::vector<std::string>& w) {
    flat_member m{at_, w[2], w[3], ""};
    if (const auto open = w[3].find('('); open != std::string::npos) {
      m.word = w[3].substr(0, open);
      m.argument = w[3].substr(open + 1, w[3].size() - open - 2);
    }
    if (m.word != "count" && m.word != "used" && m.word != "cstring" && m.word != "pid")
      return wrong_.add(at_, "a member may be count(FIELD), used(FIELD), cstring or pid");
    out_.members[w[1]].push_back(m);
  }

  void plain(const std::string& name, flat_way way) {
    if (!names_.insert(name).second) return wrong_.add(at_, name + " is there already");
    flat_call c;
    c.at = at_;
    c.name = name;
    c.way = way;
    c.reason = text_;
    if (way == flat_way::refused && text_.empty()) wrong_.add(at_, "a refusal needs a reason");
    out_.calls.push_back(c);
  }

  void call(const std::vector<std::string>& w) {
    plain(w[1], w[0] == "call" ? flat_way::call : flat_way::custom);
    auto& c = out_.calls.back();
    long id = 0;
    if (w[2] != "id" || !parse_number(w[3], id) || id < 1 || id > 0xffff)
      return wrong_.add(at_, "after the name comes id 0xNNNN");
    if (!ids_.insert(id).second) wrong_.add(at_, "the id " + w[3] + " is taken");
    c.id = static_cast<int>(id);
    for (std::size_t i = 4; i < w.size(); ++i) {
      if (w[i] == "write")
        c.write = true;
      else if (w[i] == "like" && i + 1 < w.size())
        c.like = w[++i];
      else
        wrong_.add(at_, "'" + w[i] + "' is no word of a call");
    }
    open_ = true;
  }

  void parameter(const std::vector<std::string>& w) {
    if (!open_) return wrong_.add(at_, "an indented line belongs to a call");
    auto& p = out_.calls.back().words[w[0]];
    p.at = at_;
    for (std::size_t i = 1; i < w.size(); ++i) {
      const auto open = w[i].find('(');
      const auto head = w[i].substr(0, open);
      const auto inner =
          open == std::string::npos ? "" : w[i].substr(open + 1, w[i].size() - open - 2);
      if (head == "in")
        p.in = true;
      else if (head == "out")
        p.out = true;
      else if (head == "inout")
        p.inout = true;
      else if (head == "frees")
        p.frees = true;
      else if (head == "count" && !inner.empty())
        p.count = inner;
      else if (head == "bytes" && !inner.empty())
        p.bytes = inner;
      else if (head == "text" && !inner.empty())
        p.text = inner;
      else if (head == "most" && parse_number(inner, p.most))
        continue;
      else if (head == "prefix" && parse_number(inner, p.prefix))
        continue;
      else
        wrong_.add(at_, "'" + w[i] + "' is no word of a parameter");
    }
  }

  flat_spec& out_;
  problems& wrong_;
  place at_;
  std::string text_;
  std::set<std::string> names_;
  std::set<long> ids_;
  bool open_ = false;
};

}  // namespace

flat_spec read_flat_spec(const std::filesystem::path& file, problems& wrong) {
  flat_spec out;
  flat_reader(out, wrong).read(file);
  out.reading.header_files = {out.header};
  for (const auto* needed :
       {&out.api, &out.header, &out.reading.function_prefix, &out.reading.result_type})
    if (needed->empty()) wrong.add(file.string() + ": needs api, header, functions and result");
  return out;
}

}  // namespace gpuwire::gen
