// SPDX-License-Identifier: Apache-2.0
#include "threads.hpp"

#include <pthread.h>
#include <signal.h>

#include <thread>

namespace gpuwire::softgpu {

void start_thread(const char* name, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread made(std::move(body));
    pthread_setname_np(made.native_handle(), name);
    made.detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace gpuwire::softgpu
