// SPDX-License-Identifier: Apache-2.0
// Data on its way from the GPU into the client's memory for which nobody waits: asynchronous copies
// into pinned memory. The driver copies into a staging block or a mirror at the copy's place in the
// stream; when that is done the bytes are sent, small ones in a push, large ones on the bulk
// connections followed by a push that says so.
//
// The promise: when the client learns that a copy is complete (synchronise, query, host function,
// the reply of a later copy), its bytes are there. So whoever is about to say so calls settle() or
// try_settle() first; what he then sends comes behind the pushes, whose number the reply names.
//
// A thread of its own (gpuwire-deliver) looks at the events of what is outstanding and sends; it
// starts with the first delivery and sleeps when there is none.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "daemon/mirrors.hpp"
#include "daemon/staging.hpp"

namespace gpuwire::daemon {

struct worker;

struct delivery {
  std::uint64_t sequence = 0;  // of the client's command; what the client knows it by
  std::uint32_t lane = 0;
  std::uint64_t range = 0;   // the client's number of the pinned range,
  std::uint64_t offset = 0;  // and the place inside of it
  std::uint64_t bytes = 0;
  // Who owns the bytes at `data`: one of the three.
  std::shared_ptr<mirror> source;  // large ones
  staging_block block;
  std::unique_ptr<std::byte[]> unpinned;
  std::byte* data = nullptr;
  CUevent event = nullptr;  // recorded behind the driver's copy
  CUstream stream = nullptr;
  std::uint32_t context = 0;
};

class deliveries {
 public:
  explicit deliveries(worker& w) : worker_(w) {}

  // Executor. The driver's copy has been issued and the event recorded.
  void add(delivery d);
  // The client expects a delivery that will not come. Its command's error was reported.
  void drop(std::uint64_t sequence, std::uint32_t lane);

  // Is anything outstanding? One load.
  bool any() const { return count_.load(std::memory_order_acquire) != 0; }

  // Executor; does not wait. Sends the small deliveries that are complete; false if a complete one
  // is still on its way, and then settle() is to be called on a thread that may wait.
  bool try_settle();
  // Returns when all that was complete at the time of the call has been sent. Never on the
  // executor.
  void settle();
  // Returns when no delivery of the range is outstanding. Never on the executor.
  void settle_range(std::uint64_t range);
  // Returns when nothing is outstanding in the context. Before it is destroyed.
  void settle_context(std::uint32_t context);
  // Any thread, also the driver's; does not wait and does not call the driver: `then` runs on the
  // delivering thread when all that is complete now has been sent.
  void when_settled(std::function<void()> then);

  // Side thread: the client has all bytes of a large delivery.
  void received(std::uint64_t sequence);
  void context_gone(std::uint32_t context);

 private:
  struct entry {
    delivery what;
    std::uint64_t serial = 0;
    bool complete = false, sending = false;
  };
  struct barrier {
    std::vector<std::uint64_t> serials;  // what must be gone
    std::function<void()> then;
    bool taken = false;  // the list above is filled in
  };
  struct unreceived {
    std::uint64_t sequence = 0, range = 0, offset = 0, bytes = 0;
  };
  using lock_type = std::unique_lock<std::mutex>;

  void find_complete();
  bool is_held_up(const delivery& d);
  bool send_small();
  bool send_large(lock_type& lock);
  void finish(std::list<entry>::iterator at);
  std::vector<std::uint64_t> complete_serials() const;
  bool any_left(const std::vector<std::uint64_t>& serials) const;
  void run_barriers(lock_type& lock);
  void start();  // light_mutex_ held
  void run();
  void wait_for_work();
  void nudge();

  worker& worker_;
  std::atomic<std::size_t> count_{0};

  std::mutex mutex_;
  std::condition_variable gone_;
  std::uint64_t last_serial_ = 0;
  std::list<entry> entries_;

  // Taken by the side thread and by threads of the driver: never held across a call of the driver.
  std::mutex light_mutex_;
  std::condition_variable wake_;
  bool started_ = false, nudged_ = false;
  std::vector<std::function<void()>> inbox_;
  std::vector<unreceived> unreceived_;

  // The delivering thread's alone.
  std::list<barrier> barriers_;
  std::chrono::microseconds pause_{0};
};

}  // namespace gpuwire::daemon
