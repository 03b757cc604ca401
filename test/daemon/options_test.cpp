// SPDX-License-Identifier: Apache-2.0
#include "daemon/options.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "test/catch.hpp"

using namespace gpuwire::daemon;

namespace {

std::variant<options, early_exit> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "gpuwired");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

std::string refusal(std::vector<const char*> arguments) {
  const auto parsed = parse(std::move(arguments));
  const auto* end = std::get_if<early_exit>(&parsed);
  if (end == nullptr || end->code == 0) return {};
  return end->text;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

struct temporary_file {
  std::string path = "/tmp/gpuwire-token-XXXXXX";
  explicit temporary_file(const std::string& content, mode_t mode = 0600) {
    const int fd = ::mkstemp(path.data());
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    ::fchmod(fd, mode);
    ::close(fd);
  }
  ~temporary_file() { ::unlink(path.c_str()); }
};

}  // namespace

TEST_CASE("without options gpuwired serves the system's driver on loopback") {
  const auto parsed = parse({});
  const auto& o = std::get<options>(parsed);
  CHECK(o.driver == "libcuda.so.1");
  CHECK(o.listen == "127.0.0.1");
  CHECK(o.port == 14840);
  CHECK(o.token.empty());
  CHECK(o.warnings.empty());
}

TEST_CASE("version and help end with code 0") {
  const auto version = parse({"--version"});
  CHECK(std::get<early_exit>(version).code == 0);
  CHECK(contains(std::get<early_exit>(version).text, "gpuwired "));
  const auto help = parse({"--help"});
  CHECK(std::get<early_exit>(help).code == 0);
  CHECK(contains(std::get<early_exit>(help).text, "--token-file"));
}

TEST_CASE("an address open to others needs a secret or an explicit word") {
  const auto text = refusal({"--listen", "0.0.0.0"});
  CHECK(contains(text, "0.0.0.0"));
  CHECK(contains(text, "--token-file"));
  CHECK(contains(text, "--insecure"));
  CHECK(contains(refusal({"--listen", "::"}), "--token-file"));
  CHECK(contains(refusal({"--listen", "127.0.0.1.evil.example"}), "--token-file"));
  const auto insecure = parse({"--listen", "0.0.0.0", "--insecure"});
  CHECK(std::get<options>(insecure).warnings.size() == 1);
  for (const char* local : {"127.0.0.1", "127.8.8.8", "::1", "localhost"}) {
    CHECK(std::holds_alternative<options>(parse({"--listen", local})));
  }
  const temporary_file token("secret\n");
  const auto with_token = parse({"--listen", "0.0.0.0", "--token-file", token.path.c_str()});
  CHECK(std::get<options>(with_token).token == "secret");
}

TEST_CASE("bad values are refused by name") {
  CHECK(contains(refusal({"--port", "65536"}), "--port"));
  CHECK(contains(refusal({"--port", "-1"}), "--port"));
  CHECK(contains(refusal({"--port", "http"}), "--port"));
  CHECK(contains(refusal({"--log-level", "loud"}), "loud"));
  CHECK(contains(refusal({"--sessions-max", "0"}), "--sessions-max"));
  CHECK(contains(refusal({"--driver", ""}), "--driver"));
  CHECK(contains(refusal({"--frobnicate"}), "--frobnicate"));
  CHECK(contains(refusal({"stray"}), "stray"));
}

TEST_CASE("a token file must be there, be a file and hold a token") {
  CHECK(contains(refusal({"--token-file", "/nonexistent/token"}), "/nonexistent/token"));
  CHECK(contains(refusal({"--token-file", "/tmp"}), "not a regular file"));
  const temporary_file empty(" \n\t\n");
  CHECK(contains(refusal({"--token-file", empty.path.c_str()}), "is empty"));
  const temporary_file huge(std::string(5000, 'x'));
  CHECK(contains(refusal({"--token-file", huge.path.c_str()}), "longer"));
}

TEST_CASE("a token file that others can read works but is warned about") {
  const temporary_file open_to_all("secret", 0644);
  const auto parsed = parse({"--token-file", open_to_all.path.c_str()});
  const auto& o = std::get<options>(parsed);
  REQUIRE(o.warnings.size() == 1);
  CHECK(contains(o.warnings[0], "chmod 600"));
  CHECK_FALSE(contains(o.warnings[0], "secret"));
}
