// SPDX-License-Identifier: Apache-2.0
#include "daemon/pending_wait.hpp"

#include <chrono>
#include <thread>

#include "daemon/contexts.hpp"
#include "daemon/limits.hpp"
#include "wire/generated/messages_internal.hpp"

namespace gpuwire::daemon {

bool is_reached(worker& w, const pending_wait& wait) {
  enter_context(w, wait.context);
  return w.driver().cuEventQuery(wait.event) != CUDA_ERROR_NOT_READY;
}

void wait_until_reached(worker& w, const pending_wait& wait) {
  const auto until = std::chrono::steady_clock::now() + limits::waiter_spin;
  while (std::chrono::steady_clock::now() < until) {
    if (is_reached(w, wait)) return;
    std::this_thread::yield();
  }
}

void finish_wait(worker& w, pending_wait wait, deliveries_settled settled) {
  enter_context(w, wait.context);
  const auto result = w.driver().cuEventSynchronize(wait.event);
  if (wait.pooled) w.events.release(wait.event, wait.context);
  if (settled == deliveries_settled::no) w.deliveries_to_client.settle();
  w.publish();
  if (wait.block) {
    msg::copy_from_device::reply r;  // the reply to the copy of a box has the same fields
    if (result == CUDA_SUCCESS) r.data = {wait.block.data, wait.bytes};
    w.answer<msg::copy_from_device>(wait.ticket, result, r);
  } else {
    w.answer<msg::sync>(wait.ticket, result, {});
  }
  w.inline_staging.release(wait.block);
}

}  // namespace gpuwire::daemon
