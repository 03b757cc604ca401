// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>

#include "daemon/worker.hpp"

namespace gpuwire::daemon {

void start_thread(worker& w, const char* name, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      body();
    }).detach();
  } catch (const std::system_error&) {
    w.end(1, "the system allows no more threads");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace gpuwire::daemon
