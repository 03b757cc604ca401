// SPDX-License-Identifier: Apache-2.0
// GPUWIRE_STATS=1: what the program called, how it was answered, and what that cost. Costs one relaxed load for each call
// when it is off.
#pragma once

#include <atomic>
#include <chrono>

namespace gpuwire::shim {

namespace detail {

extern std::atomic<bool> counting;

// One call of the program, from its making to its end. Any thread; made only while counting.
class counted_call {
 public:
  explicit counted_call(const char* name) : name_(name) {}
  ~counted_call();
  counted_call(const counted_call&) = delete;
  counted_call& operator=(const counted_call&) = delete;

 private:
  const char* name_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

void count_cached_answer();  // while counting

}  // namespace detail

// The table, in one write to stderr. Needs a connection that was made.
void print_statistics();

}  // namespace gpuwire::shim
