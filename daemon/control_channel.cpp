// SPDX-License-Identifier: Apache-2.0
#include "daemon/control_channel.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace gpuwire::daemon {
namespace {

union control_space {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(sizeof(int))];
};

}  // namespace

std::optional<std::pair<descriptor, descriptor>> make_control_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
  return std::pair{descriptor(ends[0]), descriptor(ends[1])};
}

bool send_packet(int channel, std::span<const std::byte> packet, int fd) {
  iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  control_space space{};
  if (fd >= 0) {
    header.msg_control = space.bytes;
    header.msg_controllen = sizeof space.bytes;
    auto* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  ssize_t sent;
  do sent = ::sendmsg(channel, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(packet.size());
}

control_state receive_packet(int channel, std::span<std::byte> packet, descriptor& fd) {
  iovec part{packet.data(), packet.size()};
  control_space space{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = space.bytes;
  header.msg_controllen = sizeof space.bytes;
  ssize_t received;
  do received = ::recvmsg(channel, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  if (received < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? control_state::would_block
                                                   : control_state::closed;
  }
  fd.reset();
  for (auto* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int))) {
      int sent = -1;
      std::memcpy(&sent, CMSG_DATA(c), sizeof sent);
      fd = descriptor(sent);
    }
  }
  return received == static_cast<ssize_t>(packet.size()) ? control_state::message
                                                         : control_state::closed;
}

bool send_control(int channel, const control_message& message, int fd) {
  const std::array body = {static_cast<std::byte>(message.kind),
                           static_cast<std::byte>(message.role)};
  return send_packet(channel, body, fd);
}

control_state receive_control(int channel, received_control& out) {
  std::array<std::byte, 2> body{};
  const auto state = receive_packet(channel, body, out.connection);
  if (state != control_state::message) return state;
  out.message = {static_cast<control_kind>(body[0]), static_cast<wire::connection_role>(body[1])};
  const bool brings_descriptor = out.message.kind == control_kind::attach || out.message.kind == control_kind::tickets;
  if (!brings_descriptor && out.message.kind != control_kind::end) return control_state::closed;
  return brings_descriptor == static_cast<bool>(out.connection) ? control_state::message
                                                     : control_state::closed;
}

}  // namespace gpuwire::daemon
