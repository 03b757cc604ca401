// SPDX-License-Identifier: Apache-2.0
// Where the process stands, in one word that every entry point reads first. From the first
// connection on the word lies in a page that the kernel wipes in a forked child: the child knows at
// its first instruction, without a handler having run.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpuwire::shim {

enum class phase : std::uint32_t {
  untouched = 0,    // no connection; also what a child of fork reads in the wiped page
  connected = 1,    // the session is open, cuInit was not called yet
  initialised = 2,  // the normal state
  lost = 3,         // the connection broke: every call returns the same code
  ended = 4,        // goodbye was said, the process is exiting
};

namespace guard {

extern std::atomic<std::atomic<std::uint32_t>*> word;  // never null

inline phase now() {
  return static_cast<phase>(word.load(std::memory_order_acquire)->load(std::memory_order_acquire));
}
void set(phase to);

// Moves the word into the wiped page, before a connection is tried. False if the system gives no
// such page.
bool arm();
// After a connection that failed: a child may start anew.
void disarm();
// True in the child of a process that was connected, or about to be.
bool in_forked_child();

}  // namespace guard
}  // namespace gpuwire::shim
