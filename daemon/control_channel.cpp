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

bool send_control(int channel, const control_message& message, int fd) {
  std::array<std::uint8_t, 2> body = {static_cast<std::uint8_t>(message.kind),
                                      static_cast<std::uint8_t>(message.role)};
  iovec part{body.data(), body.size()};
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
  return sent == static_cast<ssize_t>(body.size());
}

control_state receive_control(int channel, received_control& out) {
  std::array<std::uint8_t, 2> body{};
  iovec part{body.data(), body.size()};
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
  out.connection.reset();
  for (auto* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int))) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c), sizeof fd);
      out.connection = descriptor(fd);
    }
  }
  if (received != static_cast<ssize_t>(body.size())) return control_state::closed;
  out.message = {static_cast<control_kind>(body[0]), static_cast<wire::connection_role>(body[1])};
  const bool attach = out.message.kind == control_kind::attach;
  if (!attach && out.message.kind != control_kind::end) return control_state::closed;
  return attach == static_cast<bool>(out.connection) ? control_state::message
                                                     : control_state::closed;
}

}  // namespace gpuwire::daemon
