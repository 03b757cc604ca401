// SPDX-License-Identifier: Apache-2.0
// A real gpuwired on the soft GPU and an ephemeral loopback port, and a client that speaks the
// protocol to it without the shim: what the shim never does can be tried, too.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "wire/client.hpp"
#include "wire/generated/messages.hpp"
#include "wire/handle.hpp"

namespace daemon_test {

namespace wire = gpuwire::wire;
namespace msg = gpuwire::msg;

class server_process {
 public:
  explicit server_process(std::vector<std::string> more = {}, std::string driver = "soft");
  ~server_process();

  wire::endpoint endpoint() const { return {"127.0.0.1", port_}; }
  pid_t pid() const { return pid_; }
  // Lines of its log so far.
  std::string log() const;
  bool wait_for_log(const std::string& text, int seconds = 10) const;
  std::vector<pid_t> workers() const;
  int stop();  // SIGTERM; the exit code, -1 when it had to be killed

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  std::string log_path_;
};

// Runs gpuwired to its end; its exit code and what it said.
std::pair<int, std::string> run_to_end(const std::vector<std::string>& arguments);

class test_client {
 public:
  explicit test_client(const wire::endpoint& server, std::string token = {});

  bool connected() const { return client_ != nullptr; }
  const std::string& failure() const { return failure_; }
  wire::client& connection() { return *client_; }

  template <class Call>
  struct answer {
    wire::error transport{};
    std::int32_t result = -1;
    typename Call::reply body;
    std::shared_ptr<wire::reply> storage = std::make_shared<wire::reply>();
  };
  template <class Call>
  answer<Call> call(const typename Call::request& q, const wire::transfer& t = {}) {
    answer<Call> a;
    a.transport = client_->call({Call::call_id, lane, context}, q, *a.storage, t);
    if (a.transport != wire::error::ok) return a;
    a.result = a.storage->result;
    auto body = a.storage->body();
    if (!wire::decode_from(body, a.body)) a.transport = wire::error::protocol_violation;
    return a;
  }
  template <class Call>
  wire::error post(const typename Call::request& q) {
    return client_->post({Call::call_id, lane, context}, q);
  }

  // session_open and the primary context of device 0, which becomes the context of what follows.
  void open();
  std::uint64_t allocate(std::uint64_t bytes);

  std::uint32_t lane = 1, context = 0;
  std::vector<std::int32_t> posted_errors();
  std::uint64_t operations_completed();

 private:
  struct pushes {
    std::mutex mutex;
    std::vector<std::int32_t> errors;
    std::uint64_t operations = 0;
  };
  std::shared_ptr<pushes> pushes_ = std::make_shared<pushes>();
  std::unique_ptr<wire::client> client_;
  std::string failure_;
};

}  // namespace daemon_test
