// SPDX-License-Identifier: Apache-2.0
#include "wire/thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <cerrno>
#include <string>

namespace gpuwire::wire {
namespace {

// Sanitizers keep large frames and shadow data on the stack.
#ifdef GPUWIRE_SANITIZE
constexpr std::size_t stack_bytes = 2u << 20;
#else
constexpr std::size_t stack_bytes = 256u << 10;
#endif

struct start_record {
  std::string name;
  std::function<void()> body;
};

void* run(void* argument) {
  std::unique_ptr<start_record> record(static_cast<start_record*>(argument));
  pthread_setname_np(pthread_self(), record->name.c_str());
  record->body();
  return nullptr;
}

int create(start_record* record, std::size_t bytes) {
  pthread_attr_t attributes;
  if (const int problem = pthread_attr_init(&attributes); problem != 0) return problem;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (bytes != 0) pthread_attr_setstacksize(&attributes, bytes);
  pthread_t thread;
  const int problem = pthread_create(&thread, &attributes, &run, record);
  pthread_attr_destroy(&attributes);
  return problem;
}

}  // namespace

bool thread_group::start(const char* name, std::function<void()> body, thread_stack stack) {
  {
    std::lock_guard lock(shared_->mutex);
    ++shared_->running;
  }
  auto finish = [shared = shared_] {
    std::lock_guard lock(shared->mutex);
    --shared->running;
    shared->ended.notify_all();
  };
  auto record = std::make_unique<start_record>(
      start_record{std::string(name).substr(0, 15), [body = std::move(body), finish]() mutable {
                     body();
                     body = nullptr;  // what it holds goes before the group learns of the end
                     finish();
                   }});
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int problem = create(record.get(), stack == thread_stack::small ? stack_bytes : 0);
  // The static thread-local data of all loaded libraries lies on the stack; some programs have more
  // than fits.
  if (problem == EINVAL) problem = create(record.get(), 0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (problem != 0) {
    finish();
    return false;
  }
  static_cast<void>(record.release());  // the thread frees it
  return true;
}

void thread_group::wait() {
  std::unique_lock lock(shared_->mutex);
  shared_->ended.wait(lock, [this] { return shared_->running == 0; });
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // More cores than the set can hold: many.
  if (sched_getaffinity(0, sizeof set, &set) != 0) return CPU_SETSIZE;
  return CPU_COUNT(&set);
}

}  // namespace gpuwire::wire
