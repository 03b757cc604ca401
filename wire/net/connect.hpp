// SPDX-License-Identifier: Apache-2.0
// The way to a server: resolve, connect, shake hands, all before one deadline. Used by the one
// thread that connects.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <variant>

#include "wire/client.hpp"
#include "wire/handshake.hpp"
#include "wire/net/socket.hpp"

namespace gpuwire::wire::net {

class connector {
 public:
  using time = std::chrono::steady_clock::time_point;
  connector(endpoint server, std::string token, std::chrono::milliseconds deadline);
  ~connector();

  // A configured socket behind a finished handshake. The first call tries every address of the
  // server and waits a moment for one that is just starting; later calls use the address that
  // answered.
  std::variant<socket, connect_failure> open(const hello& h, welcome& answer);

 private:
  struct addresses;
  connect_failure timed_out(const std::string& what, const std::string& remedy) const;
  std::variant<socket, connect_failure> reach();
  std::variant<socket, connect_failure> shake_hands(socket s, const hello& h, welcome& answer);

  endpoint server_;
  std::string token_, name_;
  std::chrono::milliseconds patience_;
  time start_, deadline_;
  std::unique_ptr<addresses> addresses_;
};

}  // namespace gpuwire::wire::net
