// SPDX-License-Identifier: Apache-2.0
// Tells the client how many of its GPU operations are complete, so that it never queues more than
// the driver's channels hold and the executor never meets a full one. Counting is the executor's;
// waiting is a thread's that sleeps when nothing is outstanding. A marker follows every few
// operations of a stream: a counter word that the GPU writes, or an event where the driver cannot
// write words.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "daemon/limits.hpp"
#include "daemon/word_pages.hpp"

namespace gpuwire::daemon {

struct worker;

struct credit_key {
  std::uint64_t stream = 0;   // wire id; the legacy stream is 0
  std::uint32_t context = 0;  // of the default streams, else 0
  std::uint32_t lane = 0;     // of the per-thread stream, else 0
  friend bool operator==(const credit_key&, const credit_key&) = default;
};

struct credit_key_hash {
  std::size_t operator()(const credit_key& k) const {
    return static_cast<std::size_t>((k.stream * 0x9e3779b97f4a7c15u) ^
                                    (std::uint64_t{k.context} << 32) ^ k.lane);
  }
};

// The counting alone. Pure; executor only.
class credit_ledger {
 public:
  struct account {
    std::uint64_t operations = 0, bytes = 0;                // issued
    std::uint64_t marked_operations = 0, marked_bytes = 0;  // covered by a marker
  };

  // Counts one operation; true: the stream is due for a marker.
  bool count(const credit_key& key, std::uint64_t bytes);
  // Bytes that no marker covers have reached the session's bound: every stream with such bytes is
  // due.
  bool session_due() const { return unmarked_bytes_ >= limits::credit_session_bytes; }
  std::vector<credit_key> streams_with_unmarked_bytes() const;
  // A marker is placed now; the totals it stands for.
  account mark(const credit_key& key);
  void forget(const credit_key& key);
  void forget_context(std::uint32_t context);
  void forget_lane(std::uint32_t lane);

 private:
  std::unordered_map<credit_key, account, credit_key_hash> accounts_;
  credit_key last_key_{~std::uint64_t{0}, 0, 0};
  account* last_ = nullptr;  // most operations follow one on the same stream
  std::uint64_t unmarked_bytes_ = 0;
};

class credit_keeper {
 public:
  explicit credit_keeper(worker& w) : worker_(w) {}
  void start();

  // Executor. `native` and the current context belong to the operation just issued.
  void count(const credit_key& key, std::uint64_t bytes, CUstream native,
             std::uint32_t stream_context);
  void stream_gone(const credit_key& key);
  void lane_gone(std::uint32_t lane);
  // A lane's thread, before it destroys a context: returns when nothing is outstanding that was
  // marked in it so far, so that nobody looks at an event that is no more.
  void settle(std::uint32_t context);
  // Any thread, after that: the executor's part is done with its next operation.
  void context_gone(std::uint32_t context);

 private:
  struct marker {
    credit_key key;
    std::uint64_t operations = 0, bytes = 0;
    std::shared_ptr<counter_word> word;  // or
    CUevent event = nullptr;
    std::uint32_t value = 0;
    std::uint32_t context = 0;
    std::uint64_t serial = 0;
  };
  struct stream_place {
    CUstream native = nullptr;
    std::uint32_t context = 0;
    std::shared_ptr<counter_word> word;
  };

  void place_marker(const credit_key& key, stream_place& place);
  bool write_word(marker& m, stream_place& place);
  void take_gone_contexts();
  void run();
  bool complete(marker& m);
  void tell(const marker& m);

  worker& worker_;
  credit_ledger ledger_;                                                  // executor
  std::unordered_map<credit_key, stream_place, credit_key_hash> places_;  // executor
  bool words_work_ = true;                                                // executor

  std::mutex mutex_;
  std::condition_variable changed_, settled_;
  std::uint64_t last_serial_ = 0;
  std::deque<marker> outstanding_;
  std::vector<std::uint32_t> gone_contexts_;
  std::atomic<bool> any_gone_{false};
};

}  // namespace gpuwire::daemon
