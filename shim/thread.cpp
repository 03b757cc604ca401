// SPDX-License-Identifier: Apache-2.0
#include "shim/thread.hpp"

#include <pthread.h>

#include <new>

#include "shim/fork_guard.hpp"
#include "wire/generated/messages.hpp"

namespace gpuwire::shim {
namespace {

void end_lane(const thread_state& t) {
  const phase p = guard::now();
  if (t.lane == 0 || (p != phase::initialised && p != phase::connected)) return;
  const wire::command command{msg::lane_end::call_id, t.lane, 0};
  // A lost connection has told everybody already; there is nobody to report to in a thread that
  // ends.
  if (state().client->post(command, msg::lane_end::request{}) != wire::error::ok) return;
}

void thread_ends(void* pointer) {
  auto* t = static_cast<thread_state*>(pointer);
  end_lane(*t);
  detail::this_thread = nullptr;
  delete t;
}

bool key_for_thread_end(pthread_key_t& key) {
  static pthread_key_t the_key;
  static const bool made = ::pthread_key_create(&the_key, thread_ends) == 0;
  key = the_key;
  return made;
}

}  // namespace

namespace detail {

thread_local thread_state* this_thread __attribute__((tls_model("initial-exec"))) = nullptr;

thread_state& make_thread_state() {
  this_thread = new thread_state;
  pthread_key_t key;
  // Without a key the object of an ended thread is leaked and its lane stays open; nothing else
  // changes.
  if (key_for_thread_end(key)) ::pthread_setspecific(key, this_thread);
  return *this_thread;
}

}  // namespace detail

void give_lane(thread_state& t) {
  process_state& s = state();
  const auto lane = s.lanes_minted.fetch_add(1, std::memory_order_relaxed) + 1;
  t.record = s.lanes.make(lane);
  if (t.record == nullptr) throw std::bad_alloc();
  t.lane = lane;
}

}  // namespace gpuwire::shim
