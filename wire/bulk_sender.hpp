// SPDX-License-Identifier: Apache-2.0
// Sends bulk data over one or several connections, gathered from the caller's memory, never copied.
// The caller itself sends; large transfers are shared with one helper thread for each further
// connection. Used by both ends. Thread-safe; send() blocks while the sockets are full.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "wire/net/socket.hpp"
#include "wire/session_state.hpp"
#include "wire/thread.hpp"

namespace gpuwire::wire {

class bulk_sender {
 public:
  bulk_sender(session_state& state, thread_group& threads) : state_(state), threads_(threads) {}

  // The socket must outlive the sender's threads. Its receiving side is somebody else's.
  void attach(net::socket& connection);

  // Waits for a connection if there is none yet. `chunks` counts what was sent. A failed result is
  // the connection's.
  net::io_result send(std::uint64_t sequence, std::uint64_t offset, std::span<const std::byte> data,
                      std::uint32_t& chunks);
  void release_all();  // the session is over

 private:
  struct lane {
    explicit lane(net::socket& s) : connection(s) {}
    net::socket& connection;
    std::mutex mutex;  // one chunk at a time
    bool has_helper = false;
  };
  struct job {
    std::uint64_t sequence = 0, offset = 0;
    std::span<const std::byte> data;
    std::size_t chunk_count = 0;
    std::atomic<std::size_t> next{0};
    int helpers = 0;         // guarded by mutex_
    net::io_result failure;  // guarded by mutex_
  };

  void send_chunks(job& j, lane& l);
  void help(lane& l);    // body of a helper thread
  void start_helpers();  // mutex_ held

  session_state& state_;
  thread_group& threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<lane>> lanes_;
  std::list<job*> jobs_;
  std::size_t next_lane_ = 0;
};

}  // namespace gpuwire::wire
