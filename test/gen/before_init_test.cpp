// SPDX-License-Identifier: Apache-2.0
// What every real function of the library returns before cuInit, against the native driver's
// answers (test/data/native/return-codes-uninitialised.tsv), asked the same way: eight pointers to
// zeroed pages. No server runs.
#include <dlfcn.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "test/catch.hpp"

#ifdef __clang__
#define CALLED_AS_ANOTHER_TYPE __attribute__((no_sanitize("function")))
#else
#define CALLED_AS_ANOTHER_TYPE
#endif

namespace {

using probe = int (*)(void*, void*, void*, void*, void*, void*, void*, void*);

CALLED_AS_ANOTHER_TYPE int call(void* function, const std::array<void*, 8>& p) {
  return reinterpret_cast<probe>(function)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
}

// The names in the coverage table that are not refused.
std::set<std::string> real_functions() {
  std::ifstream in(GPUWIRE_COVERAGE_TABLE);
  std::set<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| cu", 0) != 0 || line.find("| refused |") != std::string::npos) continue;
    std::istringstream list(line.substr(2, line.find(" |", 2) - 2));
    for (std::string name; list >> name;)
      names.insert(name.back() == ',' ? name.substr(0, name.size() - 1) : name);
  }
  return names;
}

std::map<std::string, std::string> native_codes() {
  std::ifstream in(GPUWIRE_NATIVE_FACTS "/return-codes-uninitialised.tsv");
  std::map<std::string, std::string> codes;
  for (std::string line; std::getline(in, line);) {
    std::istringstream columns(line);
    std::string name, before;
    if (line[0] != '#' && columns >> name >> before) codes[name] = before;
  }
  return codes;
}

}  // namespace

TEST_CASE("before cuInit every real function returns the driver's code") {
  REQUIRE(setenv("GPUWIRE_SERVER", "127.0.0.1:9", 1) == 0);
  void* library = dlopen(GPUWIRE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  const auto real = real_functions();
  const auto codes = native_codes();
  REQUIRE(real.size() > 200);
  for (const auto& name : real) {
    if (name == "cuDriverGetVersion")
      continue;  // answers with the server's version, which needs a server
    if (name == "cuLogsRegisterCallback")
      continue;  // takes one of the pages for a function, and would call it for the next failure
    INFO(name);
    void* function = dlsym(library, name.c_str());
    REQUIRE(function);
    REQUIRE(codes.count(name) == 1);
    std::array<void*, 8> pages;
    for (auto& page : pages)
      page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int result = call(function, pages);
    const auto& native = codes.at(name);
    // Where the driver crashes, an error will do.
    if (native.rfind("signal", 0) == 0)
      CHECK(result != 0);
    else
      CHECK(std::to_string(result) == native);
    for (auto* page : pages) munmap(page, 4096);
  }
}
