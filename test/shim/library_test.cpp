// SPDX-License-Identifier: Apache-2.0
// What the built library answers without a server: entry points by name and version, error names,
// export tables, the code for a server that cannot be reached. The expected answers were recorded
// from the native driver (test/data/native).
#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "test/catch.hpp"

namespace {

void* library() {
  static void* handle = [] {
    // No test here may find a server by chance.
    ::setenv("GPUWIRE_SERVER", "127.0.0.1:1", 1);
    ::setenv("GPUWIRE_CONNECT_TIMEOUT_MS", "300", 1);
    return ::dlopen(GPUWIRE_LIBRARY, RTLD_NOW);
  }();
  REQUIRE(handle != nullptr);
  return handle;
}

template <class Function>
Function* find(const char* name) {
  auto* function = reinterpret_cast<Function*>(::dlsym(library(), name));
  REQUIRE(function != nullptr);
  return function;
}

using get_v1 = CUresult(const char*, void**, int, cuuint64_t);
using get_v2 = CUresult(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

constexpr int status_before = 99;
void* const pointer_before = reinterpret_cast<void*>(0x5a5a);

std::string name_of(void* pointer) {
  if (pointer == nullptr) return "null";
  if (pointer == pointer_before) return "untouched";
  Dl_info info{};
  REQUIRE(::dladdr(pointer, &info) != 0);
  REQUIRE(info.dli_sname != nullptr);
  return info.dli_sname;
}

// "return/status=symbol", as the table writes it.
std::string ask_v2(const std::string& name, int version, cuuint64_t flags) {
  static auto* get = find<get_v2>("cuGetProcAddress_v2");
  void* pointer = pointer_before;
  auto status = static_cast<CUdriverProcAddressQueryResult>(status_before);
  const int result = get(name.c_str(), &pointer, version, flags, &status);
  return std::to_string(result) + "/" + std::to_string(static_cast<int>(status)) + "=" +
         name_of(pointer);
}

std::ifstream open_facts(const char* name) {
  std::ifstream file(std::string(GPUWIRE_NATIVE_FACTS) + "/" + name);
  REQUIRE(file.good());
  return file;
}

// A name that is another one's alias has the same address: both exported names are right.
bool same_symbol(const std::string& wanted, const std::string& got) {
  if (wanted == got) return true;
  const auto a = wanted.substr(wanted.find('=') + 1), b = got.substr(got.find('=') + 1);
  if (wanted.substr(0, wanted.find('=')) != got.substr(0, got.find('='))) return false;
  void* x = ::dlsym(library(), a.c_str());
  return x != nullptr && x == ::dlsym(library(), b.c_str());
}

}  // namespace

TEST_CASE("cuGetProcAddress_v2 answers every name, flag and version as the native driver does") {
  auto file = open_facts("getprocaddress.tsv");
  std::string line;
  int lines = 0, wrong = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, change;
    cuuint64_t flags = 0;
    words >> name >> flags;
    std::map<int, std::string> changes;
    while (words >> change) {
      const auto colon = change.find(':');
      changes[std::stoi(change.substr(0, colon))] = change.substr(colon + 1);
    }
    REQUIRE_FALSE(changes.empty());
    for (int version = 1000; version <= 13030; version += 10) {
      auto now = changes.upper_bound(version);
      if (now == changes.begin()) continue;
      const auto& wanted = std::prev(now)->second;
      const auto got = ask_v2(name, version, flags);
      if (!same_symbol(wanted, got) && ++wrong <= 20)
        UNSCOPED_INFO(name << " flags " << flags << " version " << version << ": wanted " << wanted
                           << ", got " << got);
    }
    ++lines;
  }
  CHECK(lines > 1000);
  CHECK(wrong == 0);
}

TEST_CASE("odd requests for entry points are answered as natively") {
  auto file = open_facts("getprocaddress-odd.txt");
  auto* v1 = find<get_v1>("cuGetProcAddress");
  auto* v2 = find<get_v2>("cuGetProcAddress_v2");
  std::string line;
  int asked = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    INFO(line);
    std::istringstream words(line);
    std::string kind, quoted, version_text;
    words >> kind >> quoted >> version_text;
    ++asked;
    void* pointer = pointer_before;
    if (kind.rfind("flags", 0) == 0) {
      const auto flags = static_cast<cuuint64_t>(std::stoul(kind.substr(5)));
      CHECK(v2("cuInit", &pointer, 12000, flags, nullptr) == std::stoi(quoted));
      continue;
    }
    const auto name = quoted.substr(1, quoted.size() - 2);
    const int version = std::stoi(version_text.substr(1));
    if (kind == "odd") {
      std::string result, status, symbol;
      words >> result >> status >> symbol;
      CHECK(ask_v2(name, version, 0) ==
            result.substr(3) + "/" + status.substr(3) + "=" + symbol.substr(2));
      continue;
    }
    int wanted = 0;
    std::string symbol;
    words >> wanted >> symbol;
    const int got = kind == "odd1" ? v1(name.c_str(), &pointer, version, 0)
                                   : v2(name.c_str(), &pointer, version, 0, nullptr);
    CHECK(got == wanted);
    CHECK(name_of(pointer) == symbol);
  }
  CHECK(asked > 60);
}

TEST_CASE("every error code has the driver's name and text") {
  auto file = open_facts("error-names.txt");
  auto* name_of_code = find<CUresult(CUresult, const char**)>("cuGetErrorName");
  auto* text_of_code = find<CUresult(CUresult, const char**)>("cuGetErrorString");
  std::map<int, std::string> known;
  std::string line;
  while (std::getline(file, line))
    if (!line.empty() && line[0] != '#') known[std::stoi(line)] = line.substr(line.find(' ') + 1);
  REQUIRE(known.size() > 80);
  for (int code = -5; code < 1200; ++code) {
    const char *name = "before", *text = "before";
    const int a = name_of_code(static_cast<CUresult>(code), &name),
              b = text_of_code(static_cast<CUresult>(code), &text);
    const auto or_null = [](const char* t) { return std::string(t != nullptr ? t : "null"); };
    const auto got =
        std::to_string(a) + "/" + std::to_string(b) + " " + or_null(name) + " | " + or_null(text);
    const auto found = known.find(code);
    const auto wanted = found != known.end() ? found->second : std::string("1/1 null | null");
    if (got != wanted) {
      INFO(code);
      CHECK(got == wanted);
    }
  }
}

namespace {

CUuuid uuid_from(const char* hex) {
  CUuuid id{};
  for (std::size_t i = 0; i < 16; ++i)
    id.bytes[i] = static_cast<char>(std::stoi(std::string(hex + 2 * i, 2), nullptr, 16));
  return id;
}

const std::uintptr_t* table_of(const char* hex) {
  static auto* get = find<CUresult(const void**, const CUuuid*)>("cuGetExportTable");
  const CUuuid id = uuid_from(hex);
  const void* table = pointer_before;
  CHECK(get(&table, &id) == CUDA_SUCCESS);
  return static_cast<const std::uintptr_t*>(table);
}

}  // namespace

TEST_CASE("export tables have the sizes that libraries check, one address, and no empty slot") {
  const struct {
    const char* id;
    std::size_t bytes;
  } sized[] = {{"6bd5fb6c5bf4e74a8987d93912fd9df9", 104}, {"42d85a8123f6cb478298f6e78a3aecdc", 24},
               {"a094798c2e742e7493f20800200c0a66", 56},  {"d4082055bde6704b8d34ba123c66e1f2", 24},
               {"263e88607cd2614392f6bbd5006dfa7e", 120}, {"21318c60971432488ca641ff7324c8f2", 744},
               {"6e163fbeb958444d835ce182aff1991e", 792}, {"1734dc26800d47458726c0f1e7dd8bca", 136},
               {"da9151d33ae6cc41a5c04f26d533e328", 56}};
  for (const auto& one : sized) {
    const auto* table = table_of(one.id);
    CHECK(table == table_of(one.id));
    CHECK(table[0] == one.bytes);
    for (std::size_t i = 1; i < one.bytes / 8; ++i) CHECK(table[i] != 0);
  }
  const auto* storage = table_of("c693336e1121df11a8c368f355d89593");
  for (int i = 0; i < 3; ++i) CHECK(storage[i] > 4096);
  const auto* several = table_of("f8cff95121468b4eb9e2fb469e7c0dd9");
  const std::map<int, std::uintptr_t> words = {{0, 0x18},  {3, 0},    {4, 0x10}, {6, 0x20},
                                               {10, 0x10}, {12, 0},   {13, 0},   {14, 0x38},
                                               {21, 0},    {22, 0x78}};
  for (int i = 0; i < 37; ++i) {
    INFO(i);
    const auto fixed = words.find(i);
    if (fixed != words.end())
      CHECK(several[i] == fixed->second);
    else
      CHECK(several[i] > 4096);
  }
}

TEST_CASE("an unknown export table is refused with null") {
  auto* get = find<CUresult(const void**, const CUuuid*)>("cuGetExportTable");
  for (const char* hex : {"00000000000000000000000000000000", "d7bd8af8e7acca4abdbcfb1f1b3fcf33"}) {
    const CUuuid id = uuid_from(hex);
    const void* table = pointer_before;
    CHECK(get(&table, &id) == CUDA_ERROR_INVALID_VALUE);
    CHECK(table == nullptr);
    CHECK(get(nullptr, &id) == CUDA_ERROR_INVALID_VALUE);
    CHECK(get(&table, nullptr) == CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_CASE("the integrity table gives the constants of old versions and a digest for new ones") {
  const auto* table = table_of("d4082055bde6704b8d34ba123c66e1f2");
  auto* check = reinterpret_cast<CUresult (*)(unsigned, std::uint64_t, std::uint64_t*)>(table[1]);
  std::uint64_t out[2] = {};
  CHECK(check(13000, 1, out) == CUDA_SUCCESS);
  CHECK(out[0] == 0x3341181c03cb675c);
  CHECK(out[1] == 0x8ed383aa1f4cd1e8);
  CHECK(check(13001, 1, out) == CUDA_SUCCESS);
  CHECK(out[0] == 0x1841181c03cb675c);
  std::uint64_t again[2] = {}, later[2] = {};
  CHECK(check(13002, 1, out) == CUDA_SUCCESS);
  CHECK(check(13002, 1, again) == CUDA_SUCCESS);
  CHECK(check(13002, 2, later) == CUDA_SUCCESS);
  CHECK(std::memcmp(out, again, sizeof out) == 0);
  CHECK(std::memcmp(out, later, sizeof out) != 0);
}

namespace {

struct outcome {
  int code = -1;
  std::string said;
};

// In a child of its own, so that one attempt leaves nothing for the next.
template <class Body>
outcome in_child(Body body) {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe_ends[1], STDERR_FILENO);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
    ::_exit(body());
  }
  ::close(pipe_ends[1]);
  outcome o;
  char text[4096];
  for (ssize_t n = 0; (n = ::read(pipe_ends[0], text, sizeof text)) > 0;)
    o.said.append(text, static_cast<std::size_t>(n));
  ::close(pipe_ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  o.code = WEXITSTATUS(status);
  return o;
}

}  // namespace

TEST_CASE("a server that cannot be reached gives one code and one line, and a child may try anew") {
  auto* init = find<CUresult(unsigned)>("cuInit");
  auto* count = find<CUresult(int*)>("cuDeviceGetCount");
  const auto o = in_child([&] {
    int devices = 0;
    if (init(0) != CUDA_ERROR_SYSTEM_NOT_READY || init(0) != CUDA_ERROR_SYSTEM_NOT_READY) return 1;
    if (count(&devices) != CUDA_ERROR_NOT_INITIALIZED) return 2;
    const pid_t child = ::fork();
    if (child == 0) ::_exit(init(0) == CUDA_ERROR_SYSTEM_NOT_READY ? 0 : 3);
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 4;
  });
  CHECK(o.code == 0);
  CHECK(o.said.find("127.0.0.1:1") != std::string::npos);
  CHECK(o.said.find('\n') == o.said.size() - 1);
}

TEST_CASE("wrong settings are named") {
  auto* init = find<CUresult(unsigned)>("cuInit");
  const struct {
    const char *variable, *value;
  } wrong[] = {{"GPUWIRE_SERVER", "no:such:place:9"},
               {"GPUWIRE_CONNECT_TIMEOUT_MS", "soon"},
               {"GPUWIRE_BULK_CONNECTIONS", "5"},
               {"GPUWIRE_TOKEN_FILE", "/nonexistent/token"}};
  for (const auto& one : wrong) {
    const auto o = in_child([&] {
      ::setenv(one.variable, one.value, 1);
      return static_cast<int>(init(0) == CUDA_ERROR_SYSTEM_NOT_READY ? 0 : 1);
    });
    INFO(o.said);
    CHECK(o.code == 0);
    CHECK(o.said.find(one.variable) != std::string::npos);
    CHECK(o.said.find(one.value) != std::string::npos);
  }
}

TEST_CASE("flags of cuInit are checked before anything is tried") {
  CHECK(find<CUresult(unsigned)>("cuInit")(1) == CUDA_ERROR_INVALID_VALUE);
}
