// SPDX-License-Identifier: Apache-2.0
// What belongs to one thread of the program: its lane, its stack of contexts, memory it reuses.
// Reached through one pointer, made when first needed. It is freed by a thread-specific key rather
// than by a destructor of its own, because the main thread's calls during exit still need it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/state.hpp"

namespace gpuwire::shim {

struct thread_state {
  std::uint32_t lane = 0;  // 0: no command was sent yet
  lane_record* record = nullptr;
  std::vector<context_record*> stack;      // current context last
  std::vector<wire::handle_id> stack_ids;  // the life of each that was meant
  unsigned per_thread_stream_depth = 0;    // > 0: stream 0 means the per-thread one
  int capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::vector<wire::reply> spare_replies;
  alignas(16) std::array<std::byte, 4096> parameters;  // argument block of one launch

  // The current context even if it has died since; null without one.
  context_record* current() const { return stack.empty() ? nullptr : stack.back(); }
  bool current_is_alive() const {
    return !stack.empty() && stack.back()->id.load(std::memory_order_acquire) == stack_ids.back();
  }
  std::uint32_t context_index() const { return stack.empty() ? 0 : stack.back()->index; }
};

namespace detail {
extern thread_local thread_state* this_thread __attribute__((tls_model("initial-exec")));
thread_state& make_thread_state();
}  // namespace detail

inline thread_state& self() {
  thread_state* t = detail::this_thread;
  return t != nullptr ? *t : detail::make_thread_state();
}

// Gives the thread a lane. Called before the first command of a thread.
void give_lane(thread_state& t);
inline void need_lane(thread_state& t) {
  if (t.lane == 0) give_lane(t);
}

}  // namespace gpuwire::shim
