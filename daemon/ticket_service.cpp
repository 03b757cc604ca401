// SPDX-License-Identifier: Apache-2.0
#include "daemon/ticket_service.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/system/error_code.hpp>
#include <map>

#include "daemon/control_channel.hpp"
#include "daemon/limits.hpp"
#include "daemon/log.hpp"
#include "daemon/tickets.hpp"

namespace gpuwire::daemon {

using channel = boost::asio::posix::stream_descriptor;

struct ticket_service::parts {
  void wait(std::uint32_t session, const std::shared_ptr<channel>& c);
  // False: the worker has closed its end or does not keep to the protocol.
  bool take_questions(std::uint32_t session, channel& c);

  boost::asio::io_context& io;
  std::map<std::uint32_t, std::shared_ptr<channel>> channels{};
  ticket_book book{limits::tickets_per_session_max};
};

ticket_service::ticket_service(boost::asio::io_context& io) : parts_(new parts{io}) {}
ticket_service::~ticket_service() = default;

void ticket_service::serve(std::uint32_t session, int control) {
  auto pair = make_control_pair();
  if (!pair || !send_control(control, {control_kind::tickets, {}}, pair->second.get())) {
    log_warning("the session cannot share with others", {{"session", std::to_string(session)}});
    return;
  }
  auto c = std::make_shared<channel>(parts_->io, pair->first.release());
  parts_->channels[session] = c;
  parts_->wait(session, c);
}

void ticket_service::forget(std::uint32_t session) {
  const auto found = parts_->channels.find(session);
  if (found != parts_->channels.end()) {
    boost::system::error_code ignored;
    found->second->close(ignored);
    parts_->channels.erase(found);
  }
  parts_->book.forget_session(session);
}

void ticket_service::parts::wait(std::uint32_t session, const std::shared_ptr<channel>& c) {
  c->async_wait(channel::wait_read, [this, session, c](boost::system::error_code problem) {
    if (problem || !c->is_open()) return;
    if (take_questions(session, *c)) return wait(session, c);
    boost::system::error_code ignored;
    c->close(ignored);
  });
}

bool ticket_service::parts::take_questions(std::uint32_t session, channel& c) {
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
    const auto answer = book.answer(*asked, std::move(fd), session, with_it);
    if (!send_packet(c.native_handle(), answer.encode(), with_it)) return false;
  }
}

}  // namespace gpuwire::daemon
