// SPDX-License-Identifier: Apache-2.0
// What kernels print. The driver writes device printf to the process's stdout and assertions to its
// stderr, at times while it holds its own locks: so both are files in memory, which never block,
// and what they gained is pushed to the client before the reply of the call that natively would
// have shown it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <utility>

#include "daemon/descriptor.hpp"

namespace gpuwire::wire {
class server_session;
}

namespace gpuwire::daemon {

class output_capture {
 public:
  // Replaces descriptors 1 and 2 and makes stdout unbuffered. Before the driver is loaded. Returns
  // a copy of the old stderr for the log, or -1.
  int start();
  // Takes over the files of another one.
  void adopt(output_capture&& other) { streams_ = std::move(other.streams_); }
  // Pushes what is new. Any thread.
  void flush(wire::server_session& session);

 private:
  struct stream {
    descriptor file;
    std::uint64_t taken = 0;
  };
  void flush(wire::server_session& session, stream& s, std::uint8_t number);

  std::mutex mutex_;  // keeps the order of pushes; nothing that waits for the GPU happens under it
  std::array<stream, 2> streams_;
};

}  // namespace gpuwire::daemon
