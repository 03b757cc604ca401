// SPDX-License-Identifier: Apache-2.0
#include "daemon/session_table.hpp"

#include <sys/random.h>

#include <cerrno>
#include <system_error>

#include "daemon/limits.hpp"

namespace gpuwire::daemon {

session_entry& session_table::add(const wire::session_id& id, session_entry entry) {
  return sessions_.insert_or_assign(id, std::move(entry)).first->second;
}

session_entry* session_table::find(const wire::session_id& id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

bool session_table::admit_connection(session_entry& entry) {
  if (entry.connections >= limits::connections_per_session_max) return false;
  ++entry.connections;
  return true;
}

std::optional<session_entry> session_table::remove_worker(pid_t worker) {
  for (auto at = sessions_.begin(); at != sessions_.end(); ++at) {
    if (at->second.worker != worker) continue;
    auto entry = std::move(at->second);
    sessions_.erase(at);
    return entry;
  }
  return std::nullopt;
}

wire::session_id make_session_id() {
  wire::session_id id{};
  std::size_t filled = 0;
  while (filled < id.size()) {
    const auto bytes = ::getrandom(id.data() + filled, id.size() - filled, 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) throw std::system_error(errno, std::generic_category(), "getrandom");
    filled += static_cast<std::size_t>(bytes);
  }
  return id;
}

}  // namespace gpuwire::daemon
