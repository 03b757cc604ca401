// SPDX-License-Identifier: Apache-2.0
#include "daemon/ticket_service.hpp"

#include <boost/system/error_code.hpp>

#include "daemon/control_channel.hpp"
#include "daemon/log.hpp"

namespace gpuwire::daemon {

void ticket_service::serve(std::uint32_t session, int control) {
  auto pair = make_control_pair();
  if (!pair || !send_control(control, {control_kind::tickets, {}}, pair->second.get())) {
    log_warning("the session cannot share with others", {{"session", std::to_string(session)}});
    return;
  }
  auto c = std::make_shared<channel>(io_, pair->first.release());
  channels_[session] = c;
  wait(session, c);
}

void ticket_service::forget(std::uint32_t session) {
  const auto found = channels_.find(session);
  if (found != channels_.end()) {
    boost::system::error_code ignored;
    found->second->close(ignored);
    channels_.erase(found);
  }
  book_.forget_session(session);
}

void ticket_service::wait(std::uint32_t session, const std::shared_ptr<channel>& c) {
  c->async_wait(channel::wait_read, [this, session, c](boost::system::error_code problem) {
    if (problem || !c->is_open()) return;
    if (take_questions(session, *c)) return wait(session, c);
    boost::system::error_code ignored;
    c->close(ignored);
  });
}

bool ticket_service::take_questions(std::uint32_t session, channel& c) {
  for (;;) {
    std::array<std::byte, ticket_packet::packet_bytes> packet{};
    descriptor fd;
    switch (receive_packet(c.native_handle(), packet, fd)) {
      case control_state::would_block:
        return true;
      case control_state::closed:
        return false;
      case control_state::message:
        break;
    }
    const auto asked = ticket_packet::decode(packet);
    if (!asked) return false;
    int with_it = -1;
    const auto answer = book_.answer(*asked, std::move(fd), session, with_it);
    if (!send_packet(c.native_handle(), answer.encode(), with_it)) return false;
  }
}

}  // namespace gpuwire::daemon
