// SPDX-License-Identifier: Apache-2.0
// Decides when the operations of all streams of the process run, and hands them to who executes
// them:
//   - memory operations on a stream that waits for nothing: the calling thread, at once;
//   - kernels: the compute pool;
//   - everything else: service threads, started as they are needed.
//
// Priorities: compute threads run at idle priority and therefore never take this class's mutex. A
// finished kernel is pushed on a lock-free list; whichever normal thread is about (one that waits
// in a synchronise, submits or queries, else the conductor) takes it from there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "futex.hpp"
#include "stream.hpp"

namespace gpuwire::softgpu {

class scheduler {
 public:
  static scheduler& instance();

  // Appends to the stream. Blocks while the stream holds as many operations as a driver channel
  // does. Returns the fence of the operation. Refuses with 709 when the context is gone.
  fence submit(const std::shared_ptr<stream>& to, operation what);
  // An event that a sequence records or waits for. `bound` is filled in by submit_sequence: the
  // record to be made, or the latest one at that time (null: nothing to wait for).
  struct event_step {
    std::shared_ptr<event> which;
    bool records = false;
    std::shared_ptr<event_record> bound;
  };
  // The same for a sequence: as of now, its events are recorded, but not done.
  fence submit_sequence(const std::shared_ptr<stream>& to, operation what,
                        std::vector<std::shared_ptr<event_step>>& event_steps);
  // Records the event at this place of the stream.
  void record(const std::shared_ptr<stream>& to, event& which);
  // Later operations of the stream wait for the latest record of the event.
  void wait_event(const std::shared_ptr<stream>& to, event& which);
  // The same for all streams of a context, present and future.
  void record_context(context& of, event& which);
  void wait_event_context(context& of, event& which);

  void wait(const fence& which);
  void synchronise(const std::shared_ptr<stream>& which);
  void synchronise(context& which);
  bool idle(const std::shared_ptr<stream>& which);
  // The latest record of the event; null when it was never recorded.
  std::shared_ptr<event_record> latest(event& which);
  bool done(const event_record& record);
  void wait(const event_record& record);

  void add_stream(context& to, std::shared_ptr<stream> made);
  // Work that is queued still runs.
  void destroy_stream(const std::shared_ptr<stream>& which);
  // Marks the context as gone, so that nothing more is submitted, and waits for what was.
  void close(context& which);

  // From a compute thread: the kernel has ended. Takes no lock.
  void kernel_ended(std::shared_ptr<kernel_run> run) noexcept;

 private:
  using locked = std::unique_lock<std::mutex>;

  scheduler() = default;
  void start_threads();
  void conduct();
  void serve();

  void wait_for_room(stream& at, locked& lock);
  fence enqueue(const std::shared_ptr<stream>& to, operation what, locked& lock);
  void add_implicit_dependencies(stream& of, operation& what);
  bool ready_to_run(stream& of, const operation& what, const std::shared_ptr<stream>& self);
  void advance(const std::shared_ptr<stream>& which);
  void dispatch(const std::shared_ptr<stream>& which);
  // Ends the running operation of the stream and starts what waited for it.
  void finish(const std::shared_ptr<stream>& which);
  void complete(stream& which, operation& what, std::vector<std::shared_ptr<stream>>& to_check);
  void complete_step(stream& which, operation& what,
                     std::vector<std::shared_ptr<stream>>& to_check);
  bool start_next(const std::shared_ptr<stream>& which,
                  std::vector<std::shared_ptr<stream>>& to_check);
  bool start_step(const std::shared_ptr<stream>& which,
                  std::vector<std::shared_ptr<stream>>& to_check);
  void take_ended_kernels();
  void signal_waiters();
  std::vector<fence> fences_of(context& which);
  std::vector<fence> fences_of(const std::shared_ptr<stream>& which);
  void prune(context& which);
  template <typename Condition>
  void wait_until(locked& lock, Condition condition);
  bool poll_values();

  std::mutex mutex_;
  std::condition_variable service_needed_;
  std::deque<std::shared_ptr<stream>> to_serve_;
  unsigned idle_servers_ = 0;
  std::vector<std::shared_ptr<stream>> value_waits_;
  bool started_ = false;

  std::atomic<kernel_run*> ended_{nullptr};
  std::atomic<int> waiters_{0};
  wake_word something_completed_;
  wake_word conductor_;
};

std::uint64_t monotonic_ns();
// Passed when the record is done.
fence fence_of(const std::shared_ptr<event_record>& record);

}  // namespace gpuwire::softgpu
