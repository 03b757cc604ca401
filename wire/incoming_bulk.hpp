// SPDX-License-Identifier: Apache-2.0
// The bulk data that a server expects, and the sinks it goes to. Receive threads of the bulk
// connections run receive(); the executor says what is expected. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "wire/header.hpp"
#include "wire/net/socket.hpp"
#include "wire/server.hpp"
#include "wire/session_state.hpp"

namespace gpuwire::wire {

class incoming_bulk {
 public:
  using fail_function = std::function<void(error, const std::string&)>;

  incoming_bulk(session_state& state, fail_function fail) : state_(state), fail_(std::move(fail)) {}

  void expect(std::uint64_t sequence, std::shared_ptr<bulk_sink> sink, std::uint64_t bytes);
  void receive(net::socket& connection);  // until the session ends
  void release_all();                     // the session is over: tells the sinks

 private:
  struct transfer_in {
    std::shared_ptr<bulk_sink> sink;
    std::uint64_t total = 0, announced = 0, arrived = 0;
    int in_progress = 0;
    bool over = false;
  };

  std::shared_ptr<transfer_in> begin_chunk(const bulk_header& header);
  void end_chunk(std::uint64_t sequence, transfer_in& t, std::uint32_t bytes, bool complete);
  bool receive_chunk(net::socket& connection, const bulk_header& header, transfer_in& t,
                     std::vector<std::byte>& waste);

  session_state& state_;
  const fail_function fail_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, std::shared_ptr<transfer_in>> expected_;
};

}  // namespace gpuwire::wire
