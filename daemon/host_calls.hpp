// SPDX-License-Identifier: Apache-2.0
// Functions of the client's program that the GPU's work waits for. The daemon knows them by the
// client's number alone; the driver gets a function of ours, which tells the client (push
// host_call). What comes behind is held until the client's side connection brings the answer
// (notice host_call_done). Two ways:
//
// - In a stream outside of captures: a short host function that only tells, then a wait of the
//   stream for a pinned word, which the side thread opens with a plain store. No thread of the
//   driver is held, so host functions of other streams are not in each other's way.
// - Where the driver has no such wait, in captures and in graphs: a trampoline, a host function
// that
//   itself stays until the answer is there. It holds no lock, and neither executor nor lanes are
//   involved in its release; a lost session releases it too, because the worker ends.
//
// For graphs: make_trampoline() gives {function, data} for a host node (or for
// cuGraphExecHostNodeSetParams); it may run any number of times, also at once. The data lives until
// drop_trampoline(), which is to be called when no graph, executable graph or running launch refers
// to it any more; keeping it until the session ends costs 64 bytes. The client must keep its
// function registered as long (shim/host_functions.hpp: host_function::once = false).
//
// Any thread; launch() with the stream's context current.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "daemon/stream_reference.hpp"

namespace gpuwire::daemon {

struct worker;
struct counter_word;

class host_calls {
 public:
  explicit host_calls(worker& w) : worker_(w) {}

  // One host function (or stream callback) at this place of the stream. If the stream captures, the
  // capture gets one host node.
  CUresult launch(std::uint64_t id, bool callback, const stream_reference& s);

  struct trampoline {
    CUhostFn function = nullptr;
    void* data = nullptr;
  };
  trampoline make_trampoline(std::uint64_t id);
  // One for all nodes that call the same function, kept until the session ends.
  trampoline shared_trampoline(std::uint64_t id);
  // The client's number behind the data of a host node; 0: not ours.
  std::uint64_t function_of(const void* data);
  void drop_trampoline(void* data);

  // Side thread: the client's function has returned. A number that is none is ignored.
  void done(std::uint64_t run);
  // Nothing that was launched in the context will be called any more.
  void context_gone(std::uint32_t context);

 private:
  // What the driver hands back to us.
  struct record {
    host_calls* owner = nullptr;
    std::uint64_t id = 0;
    std::uint64_t run = 0;  // of a gate
    std::uint32_t context = 0;
    bool once = false;  // of a trampoline: ends with its run
    std::shared_ptr<counter_word> gate;
  };
  struct waiting_run;

  static void CUDA_CB tell_function(void* data);
  static void CUDA_CB tell_callback(CUstream stream, CUresult result, void* data);
  static void CUDA_CB hold_function(void* data);
  static void CUDA_CB hold_callback(CUstream stream, CUresult result, void* data);

  CUresult launch_gate(std::uint64_t id, bool callback, const stream_reference& s,
                       std::shared_ptr<counter_word> gate);
  CUresult launch_trampoline(std::uint64_t id, bool callback, const stream_reference& s, bool once);
  void tell(std::uint64_t id, std::uint64_t run, CUresult result);
  void tell_after_deliveries(std::uint64_t id, std::uint64_t run, CUresult result);
  void hold(record& r, CUresult result);
  record* add(std::unique_ptr<record> r);
  void drop(record* r);

  worker& worker_;
  std::mutex mutex_;
  std::uint64_t last_run_ = 0;
  std::unordered_map<void*, std::unique_ptr<record>> records_;
  std::unordered_map<std::uint64_t, record*>
      shared_;  // trampolines of nodes, by the client's number
  std::unordered_map<std::uint64_t, record*> gates_;         // by run
  std::unordered_map<std::uint64_t, waiting_run*> waiting_;  // trampolines, by run
};

}  // namespace gpuwire::daemon
