// SPDX-License-Identifier: Apache-2.0
#include "daemon/watchdog.hpp"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "daemon/control_channel.hpp"
#include "daemon/limits.hpp"

namespace gpuwire::daemon {

void end_of_session::ended(time_point now) {
  if (open_ > 0) --open_;
  // The grace lets the executor work off what the client had sent before it went.
  if (open_ == 0) deadline_ = now + limits::lost_grace;
}

watchdog::watchdog(descriptor control, std::function<void(wire::connection_role, int fd)> attach,
                   std::function<void(const std::string& reason)> end,
                   std::function<void(descriptor)> tickets)
    : control_(std::move(control)),
      attach_(std::move(attach)),
      end_(std::move(end)),
      tickets_(std::move(tickets)) {}

void watchdog::watch(int fd) {
  descriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return end_("no descriptor left to watch a connection");
  connections_.push_back(std::move(copy));
  over_.opened();
}

bool watchdog::take_messages() {
  for (;;) {
    received_control received;
    switch (receive_control(control_.get(), received)) {
      case control_state::would_block:
        return true;
      case control_state::closed:
        end_("the daemon is gone");
        return false;
      case control_state::message:
        break;
    }
    if (received.message.kind == control_kind::end) {
      end_("the daemon shuts down");
      return false;
    }
    if (received.message.kind == control_kind::tickets) {
      tickets_(std::move(received.connection));
      continue;
    }
    watch(received.connection.get());
    attach_(received.message.role, received.connection.release());
  }
}

void watchdog::look_at_connections(const std::vector<short>& events) {
  for (std::size_t i = events.size(); i-- > 0;) {
    if ((events[i] & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) == 0) continue;
    connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
    over_.ended(std::chrono::steady_clock::now());
  }
}

void watchdog::run() {
  for (;;) {
    std::vector<pollfd> waiting{{control_.get(), POLLIN, 0}};
    // Only the end of a connection is asked for: its data is for others, and unread data does not
    // wake this thread.
    for (const auto& c : connections_) waiting.push_back({c.get(), POLLRDHUP, 0});
    int timeout_ms = -1;
    if (const auto deadline = over_.deadline()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          *deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return end_("all connections ended without goodbye");
      timeout_ms = static_cast<int>(left.count());
    }
    if (::poll(waiting.data(), waiting.size(), timeout_ms) < 0 && errno != EINTR)
      return end_("poll failed");
    std::vector<short> events;
    for (std::size_t i = 1; i < waiting.size(); ++i) events.push_back(waiting[i].revents);
    look_at_connections(events);
    if (waiting[0].revents != 0 && !take_messages()) return;
  }
}

}  // namespace gpuwire::daemon
