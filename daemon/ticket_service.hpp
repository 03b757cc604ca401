// SPDX-License-Identifier: Apache-2.0
// The main process's side of tickets: answers the questions of all workers. The main thread's; never blocks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <map>
#include <memory>

#include "daemon/limits.hpp"
#include "daemon/tickets.hpp"

namespace gpuwire::daemon {

class ticket_service {
 public:
  explicit ticket_service(boost::asio::io_context& io) : io_(io) {}
  // Makes a channel, sends its other end to the worker over its control channel and answers what comes.
  void serve(std::uint32_t session, int control);
  // The worker has ended: what it shared is gone.
  void forget(std::uint32_t session);

 private:
  using channel = boost::asio::posix::stream_descriptor;
  void wait(std::uint32_t session, const std::shared_ptr<channel>& c);
  // False: the worker has closed its end or does not keep to the protocol.
  bool take_questions(std::uint32_t session, channel& c);

  boost::asio::io_context& io_;
  std::map<std::uint32_t, std::shared_ptr<channel>> channels_;
  ticket_book book_{limits::tickets_per_session_max};
};

}  // namespace gpuwire::daemon
