// SPDX-License-Identifier: Apache-2.0
// The main process's side of tickets: answers the questions of all workers. The main thread's; never blocks.
#pragma once

#include <cstdint>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace gpuwire::daemon {

class ticket_service {
 public:
  explicit ticket_service(boost::asio::io_context& io);
  ~ticket_service();
  // Makes a channel, sends its other end to the worker over its control channel and answers what comes.
  void serve(std::uint32_t session, int control);
  // The worker has ended: what it shared is gone.
  void forget(std::uint32_t session);

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace gpuwire::daemon
