// SPDX-License-Identifier: Apache-2.0
// A stream: an in-order queue of operations, and what operations wait for.
//
// Everything below "scheduler" is guarded by the scheduler's mutex; the rest is immutable. The n-th
// operation given to a stream has sequence n; a stream has completed n when all operations up to it
// are done, so a fence is a stream and a number.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_api.hpp"

namespace gpuwire::softgpu {

class context;
class kernel_run;
struct capture;
struct captured_point;
struct event_record;
struct operation;
struct stream;

// Passed when the stream has completed so many operations; with a record, already when that is done
// (a graph records events before it ends).
struct fence {
  std::shared_ptr<stream> of;
  std::uint64_t sequence = 0;
  std::shared_ptr<event_record> record = nullptr;
};

// One recording of an event.
struct event_record {
  bool done = false;
  std::uint64_t time_ns = 0;
  fence at;
};

struct event {
  std::shared_ptr<context> owner;
  CUevent handle = nullptr;
  unsigned flags = 0;
  std::shared_ptr<event_record> latest;  // scheduler

  // Set while the event was last recorded in a capturing stream. The flag is for a look without the
  // lock; the rest is guarded by graph_mutex().
  std::atomic<bool> is_captured{false};
  std::shared_ptr<captured_point> captured;
};

// Work that is many operations, each made when the one before has ended: a launched graph.
class operation_sequence {
 public:
  virtual ~operation_sequence() = default;
  // The next operation, null at the end. Called under the scheduler's mutex: it neither blocks nor
  // calls the scheduler.
  virtual std::unique_ptr<operation> next() = 0;
};

struct operation {
  enum class kind {
    marker,  // nothing to do: an event record, a wait for dependencies
    work,    // run() moves memory: it ends by itself
    host,    // run() calls the application: it may take any time
    kernel,
    value_wait,  // until ready() says so
    sequence,    // one operation for the stream's count, made of steps
  };
  kind what = kind::marker;
  std::vector<fence> dependencies;
  std::function<void()> run;
  std::function<bool()> ready;
  std::shared_ptr<kernel_run> kernel;
  std::shared_ptr<event_record> record;
  std::shared_ptr<operation_sequence> steps;
  // Records of the steps: done at the end of the sequence, whether their steps ran or an error came
  // before.
  std::vector<std::shared_ptr<event_record>> step_records;
  // A host callback is called after an error too (cuStreamAddCallback), a host function is not.
  bool even_after_error = false;

  std::uint64_t sequence = 0;
};

struct stream {
  std::shared_ptr<context> owner;  // null for the streams that the context itself holds
  context* in = nullptr;
  CUstream handle = nullptr;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
  bool blocking = true;  // orders itself with the legacy stream
  bool legacy = false;

  // scheduler
  std::uint64_t submitted = 0;
  std::uint64_t completed = 0;
  bool running = false;  // the operation `current` is being executed
  bool destroyed = false;
  operation current;
  // The sequence that is under way, and its next step while that waits for something.
  std::unique_ptr<operation> sequence;
  std::unique_ptr<operation> step;
  std::deque<operation> queue;
  std::vector<std::shared_ptr<stream>> dependents;  // streams whose head may wait for this one

  // Hints that were set for it; nothing here heeds them, but they can be read back.
  std::mutex attributes_mutex;
  std::vector<CUlaunchAttribute> attributes;

  // Guarded by graph_mutex(); the flag is for a look without the lock.
  std::atomic<bool> is_capturing{false};
  std::shared_ptr<capture> capturing;

  bool pending() const { return submitted != completed; }
};

}  // namespace gpuwire::softgpu
