// SPDX-License-Identifier: Apache-2.0
// The sessions of the main process: which secret number belongs to which worker. One thread; no I/O
// beyond closing the control channel of a removed session.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "daemon/descriptor.hpp"
#include "wire/handshake.hpp"

namespace gpuwire::daemon {

struct session_entry {
  std::uint32_t number = 0;  // for the log; the id itself is a secret
  pid_t worker = -1;
  descriptor control;
  std::string peer;
  std::size_t connections = 1;  // ever handed over
  std::chrono::steady_clock::time_point started{};
};

class session_table {
 public:
  explicit session_table(std::size_t sessions_max) : sessions_max_(sessions_max) {}

  bool full() const { return sessions_.size() >= sessions_max_; }
  std::size_t size() const { return sessions_.size(); }
  std::uint32_t next_number() { return ++last_number_; }

  session_entry& add(const wire::session_id& id, session_entry entry);
  // Null: unknown, or it has ended.
  session_entry* find(const wire::session_id& id);
  // Counts one more connection; false when the session has had too many.
  bool admit_connection(session_entry& entry);
  std::optional<session_entry> remove_worker(pid_t worker);

  template <class Function>
  void for_each(Function&& f) {
    for (auto& [id, entry] : sessions_) f(entry);
  }

 private:
  std::size_t sessions_max_;
  std::uint32_t last_number_ = 0;
  std::map<wire::session_id, session_entry> sessions_;
};

// Unguessable; throws std::system_error when the system gives no randomness.
wire::session_id make_session_id();

}  // namespace gpuwire::daemon
