// SPDX-License-Identifier: Apache-2.0
#include "test/daemon/server_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "test/catch.hpp"

extern char** environ;

namespace daemon_test {
namespace {

using namespace std::chrono_literals;

pid_t start(const std::vector<std::string>& arguments, int out, int err) {
  std::vector<char*> argv{const_cast<char*>(GPUWIRED)};
  for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  pid_t pid = -1;
  const int problem = ::posix_spawn(&pid, GPUWIRED, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) throw std::runtime_error("cannot start gpuwired");
  return pid;
}

std::string read_all(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string temporary_path() {
  std::string path = "/tmp/gpuwired-test-XXXXXX";
  ::close(::mkstemp(path.data()));
  return path;
}

}  // namespace

server_process::server_process(std::vector<std::string> more, std::string driver)
    : log_path_(temporary_path()) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const int log = ::open(log_path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  std::vector<std::string> arguments{"--driver", std::move(driver), "--port",
                                     "0",        "--log-level",     "debug"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  pid_ = start(arguments, ends[1], log);
  ::close(ends[1]);
  ::close(log);
  std::string line;
  char c;
  while (::read(ends[0], &c, 1) == 1 && c != '\n') line += c;
  ::close(ends[0]);
  const auto colon = line.rfind(':');
  if (line.rfind("listening on ", 0) != 0 || colon == std::string::npos)
    throw std::runtime_error("gpuwired does not listen: " + read_all(log_path_));
  port_ = static_cast<std::uint16_t>(std::stoi(line.substr(colon + 1)));
}

server_process::~server_process() {
  stop();
  ::unlink(log_path_.c_str());
}

int server_process::stop() {
  if (pid_ < 0) return 0;
  ::kill(pid_, SIGTERM);
  int status = 0;
  for (int i = 0; i < 1000; ++i) {
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    std::this_thread::sleep_for(10ms);
  }
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return -1;
}

std::string server_process::log() const {
  return read_all(log_path_);
}

bool server_process::wait_for_log(const std::string& text, int seconds) const {
  for (int i = 0; i < seconds * 50; ++i) {
    if (log().find(text) != std::string::npos) return true;
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

std::vector<pid_t> server_process::workers() const {
  const auto pid = std::to_string(pid_);
  std::ifstream file("/proc/" + pid + "/task/" + pid + "/children");
  std::vector<pid_t> result;
  pid_t child;
  while (file >> child) result.push_back(child);
  return result;
}

std::pair<int, std::string> run_to_end(const std::vector<std::string>& arguments) {
  const auto path = temporary_path();
  const int out = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  const auto pid = start(arguments, out, out);
  ::close(out);
  int status = 0;
  ::waitpid(pid, &status, 0);
  auto text = read_all(path);
  ::unlink(path.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, std::move(text)};
}

test_client::test_client(const wire::endpoint& server, std::string token) {
  wire::client_options o;
  o.server = server;
  o.token = std::move(token);
  o.on_push = [p = pushes_](std::uint16_t call, std::uint32_t, wire::decoder& body) {
    std::lock_guard lock(p->mutex);
    if (call == msg::posted_error::call_id) {
      msg::posted_error::request e;
      if (wire::decode_from(body, e)) p->errors.push_back(e.result);
    } else if (call == msg::credit::call_id) {
      msg::credit::request c;
      if (wire::decode_from(body, c)) p->operations = c.operations_completed;
    }
  };
  auto connected = wire::client::connect(o);
  if (auto* failure = std::get_if<wire::connect_failure>(&connected))
    failure_ = failure->text;
  else
    client_ = std::move(std::get<0>(connected));
}

void test_client::open() {
  const auto opened = call<msg::session_open>({});
  REQUIRE(opened.result == 0);
  REQUIRE(opened.body.init_result == 0);
  REQUIRE(opened.body.devices.size() == 1);
  const auto retained = call<msg::primary_context_retain>({0});
  REQUIRE(retained.result == 0);
  context = wire::handle_index(retained.body.context);
  REQUIRE(context == 1);
}

std::uint64_t test_client::allocate(std::uint64_t bytes) {
  msg::memory_allocate::request q;
  q.bytes = bytes;
  const auto a = call<msg::memory_allocate>(q);
  REQUIRE(a.result == 0);
  return a.body.address;
}

std::vector<std::int32_t> test_client::posted_errors() {
  std::lock_guard lock(pushes_->mutex);
  return pushes_->errors;
}

std::uint64_t test_client::operations_completed() {
  std::lock_guard lock(pushes_->mutex);
  return pushes_->operations;
}

}  // namespace daemon_test
