// SPDX-License-Identifier: Apache-2.0
#include "shim/fork_guard.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace gpuwire::shim::guard {
namespace {

// The page holds the phase and, beside it, a word that is 1 in the process that armed it.
struct page {
  std::atomic<std::uint32_t> phase{0};
  std::atomic<std::uint32_t> parent{1};
};

constinit std::atomic<std::uint32_t> before_any_connection{0};
constinit std::atomic<page*> armed{nullptr};
constinit std::atomic<bool> in_use{false};  // in ordinary memory: a child inherits it

}  // namespace

constinit std::atomic<std::atomic<std::uint32_t>*> word{&before_any_connection};

void set(phase to) {
  word.load(std::memory_order_acquire)
      ->store(static_cast<std::uint32_t>(to), std::memory_order_release);
}

bool arm() {
  in_use.store(true, std::memory_order_release);
  if (page* known = armed.load(std::memory_order_acquire)) {
    known->parent.store(1,
                        std::memory_order_relaxed);  // wiped, if this is a child that starts anew
    return true;
  }
  const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  if (::madvise(memory, bytes, MADV_WIPEONFORK) != 0) {
    ::munmap(memory, bytes);
    return false;
  }
  auto* fresh = new (memory) page();
  armed.store(fresh, std::memory_order_release);
  word.store(&fresh->phase, std::memory_order_release);
  return true;
}

void disarm() {
  in_use.store(false, std::memory_order_release);
}

bool in_forked_child() {
  const page* p = armed.load(std::memory_order_acquire);
  return p != nullptr && in_use.load(std::memory_order_acquire) &&
         p->parent.load(std::memory_order_relaxed) == 0;
}

}  // namespace gpuwire::shim::guard
