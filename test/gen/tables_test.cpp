// SPDX-License-Identifier: Apache-2.0
// The generated tables against what the native driver (580, CUDA 13.0) answered: test/data/native.
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "shim/generated/error_table.hpp"
#include "shim/generated/proc_table.hpp"
#include "test/catch.hpp"

extern const struct stub {
  const char* name;
  void* function;
} stubs[];

namespace {

using gpuwire::shim::find_proc;
using gpuwire::shim::proc_status;

std::ifstream facts(const char* name) {
  std::ifstream in(std::string(GPUWIRE_NATIVE_FACTS) + "/" + name);
  REQUIRE(in.good());
  return in;
}

constexpr int driver_version = 13000;

// "2000:0/0=cuInit": from this version on, return 0, status 0 and this symbol.
struct change {
  int version = 0;
  std::string answer;
};

change parse_change(const std::string& text) {
  const auto colon = text.find(':');
  return {std::stoi(text.substr(0, colon)), text.substr(colon + 1)};
}

std::string answer_of(const std::string& name, int version, bool per_thread) {
  const auto a = find_proc(name, version, per_thread);
  switch (a.status) {
    case proc_status::found:
      return std::string("0/0=") + a.symbol;
    case proc_status::name_unknown:
      return "0/1=null";
    case proc_status::version_not_sufficient:
      return "0/2=null";
  }
  return "";
}

}  // namespace

TEST_CASE(
    "every answer about an entry point is the driver's, at every version and in every series") {
  auto in = facts("getprocaddress.tsv");
  int lines = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream columns(line);
    std::string name, flags, column;
    std::getline(columns, name, '\t');
    std::getline(columns, flags, '\t');
    std::vector<change> changes;
    while (std::getline(columns, column, '\t')) changes.push_back(parse_change(column));
    REQUIRE(!changes.empty());
    ++lines;
    std::size_t current = 0;
    for (int version = changes[0].version; version <= driver_version; version += 10) {
      while (current + 1 < changes.size() && changes[current + 1].version <= version) ++current;
      const auto answer = answer_of(name, version, flags == "2");
      if (answer == changes[current].answer) continue;
      INFO(name << " flags " << flags << " version " << version);
      REQUIRE(answer == changes[current].answer);
    }
  }
  CHECK(lines == 1437);
}

TEST_CASE("an entry point's address is that of the symbol of its name") {
  std::map<std::string, void*> addresses;
  for (const auto* s = stubs; s->name; ++s) addresses[s->name] = s->function;
  for (const auto& [name, address] : addresses) {
    for (const bool per_thread : {false, true}) {
      const auto a = find_proc(name, driver_version, per_thread);
      if (a.status != proc_status::found) continue;
      REQUIRE(addresses.count(a.symbol) == 1);
      CHECK(a.function == addresses[a.symbol]);
    }
  }
}

TEST_CASE("names that the driver does not know are unknown") {
  for (const char* name :
       {"cuDefinitelyNotReal", "", "cuD3D9GetDevice", "cuCtxCreate_v2", "cuMemAlloc_v2",
        "cuLaunchKernel_ptsz", "cudaMalloc", "cuMemGetAttribute", "cuEGLApiInit"})
    CHECK(find_proc(name, driver_version, false).status == proc_status::name_unknown);
}

TEST_CASE("every result has the driver's name and text, and no other number has one") {
  auto in = facts("error-names.txt");
  std::map<int, std::string> known;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    int code = 0;
    std::string returns;
    words >> code >> returns;
    std::string rest;
    std::getline(words >> std::ws, rest);
    if (returns == "0/0") known[code] = rest;
  }
  CHECK(known.size() == 101);
  for (int code = -2; code <= 1200; ++code) {
    const char* name = gpuwire::shim::error_name(code);
    const char* text = gpuwire::shim::error_text(code);
    INFO("code " << code);
    if (known.count(code)) {
      REQUIRE((name && text));
      CHECK(std::string(name) + " | " + text == known[code]);
    } else {
      CHECK((name == nullptr && text == nullptr));
    }
  }
}
