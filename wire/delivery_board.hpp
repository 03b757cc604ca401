// SPDX-License-Identifier: Apache-2.0
// Memory of the program into which data will come for which no caller waits. Known by the sequence
// of the posted command that asked for it. Small data is put in by the side thread, large data by
// the bulk receive threads, which the server announces on the side connection when it has sent all
// of it. So whoever has handled enough pushes waits here only for what is still between the
// sockets. Thread-safe; knows no sockets.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>

#include "wire/session_state.hpp"

namespace gpuwire::wire {

class delivery_board {
 public:
  explicit delivery_board(session_state& state) : state_(state) {}

  void add(std::uint64_t sequence, std::span<std::byte> memory);
  void withdraw(std::uint64_t sequence);  // nothing will come

  // Side thread. False: there is no such delivery, or it has another size.
  bool deliver(std::uint64_t sequence, std::span<const std::byte> data);
  bool announce(std::uint64_t sequence);  // the server has sent all of it

  // Bulk receive threads: memory for a chunk, empty if nobody expects it; then whether it was the
  // last one.
  std::span<std::byte> chunk_place(std::uint64_t sequence, std::uint64_t offset,
                                   std::uint32_t bytes);
  bool chunk_done(std::uint64_t sequence, std::uint32_t bytes);

  // Returns when all that was announced before the call is in. False: the session is over.
  bool wait_announced();
  // Whether something will still come into this memory.
  bool expects_into(std::span<const std::byte> memory) const;

  void release_all();  // the session is over

 private:
  struct delivery {
    std::span<std::byte> memory;
    std::uint64_t arrived = 0;
    std::uint64_t announced_as = 0;  // number of its announcement, 0: not yet
  };
  void erase(std::unordered_map<std::uint64_t, delivery>::iterator found);

  session_state& state_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, delivery> deliveries_;  // by sequence
  std::uint64_t announcements_ = 0;
  std::set<std::uint64_t> incomplete_;  // numbers of announcements
  std::atomic<std::size_t> incomplete_count_{0}, count_{0};
};

}  // namespace gpuwire::wire
