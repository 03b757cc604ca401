// SPDX-License-Identifier: Apache-2.0
// The threads of one session: detached, with small stacks and all signals blocked, so that the program they live in
// notices nothing of them. wait() is for tests and for the server; a client process ends without it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace gpuwire::wire {

// usual: as the system gives it, for threads that run code of the program.
enum class thread_stack { small, usual };

class thread_group {
 public:
  // False when the system refuses another thread. The name is shown by debuggers; at most 15 characters.
  [[nodiscard]] bool start(const char* name, std::function<void()> body,
                           thread_stack stack = thread_stack::small);
  void wait();  // until every thread has ended; never from one of them

 private:
  struct shared {
    std::mutex mutex;
    std::condition_variable ended;
    int running = 0;
  };
  std::shared_ptr<shared> shared_ = std::make_shared<shared>();
};

int usable_cores();

}  // namespace gpuwire::wire
