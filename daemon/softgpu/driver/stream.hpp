// SPDX-License-Identifier: Apache-2.0
// A stream: an in-order queue of operations, and what operations wait for.
//
// Everything below "scheduler" is guarded by the scheduler's mutex; the rest is immutable. The n-th
// operation given to a stream has sequence n; a stream has completed n when all operations up to it
// are done, so a fence is a stream and a number.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "cuda_api.hpp"

namespace gpuwire::softgpu {

class context;
class kernel_run;
struct stream;

struct fence {
  std::shared_ptr<stream> of;
  std::uint64_t sequence = 0;
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
};

struct operation {
  enum class kind {
    marker,  // nothing to do: an event record, a wait for dependencies
    work,    // run() moves memory: it ends by itself
    host,    // run() calls the application: it may take any time
    kernel,
    value_wait,  // until ready() says so
  };
  kind what = kind::marker;
  std::vector<fence> dependencies;
  std::function<void()> run;
  std::function<bool()> ready;
  std::shared_ptr<kernel_run> kernel;
  std::shared_ptr<event_record> record;
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
  std::deque<operation> queue;
  std::vector<std::shared_ptr<stream>> dependents;  // streams whose head may wait for this one

  bool pending() const { return submitted != completed; }
};

}  // namespace gpuwire::softgpu
