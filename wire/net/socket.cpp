// SPDX-License-Identifier: Apache-2.0
#include "wire/net/socket.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "wire/limits.hpp"

namespace gpuwire::wire::net {
namespace {

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == 127);
  }
  return false;
}

bool same_host(int fd) {
  sockaddr_storage peer{}, own{};
  socklen_t peer_bytes = sizeof peer, own_bytes = sizeof own;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0) return false;
  if (is_loopback(peer)) return true;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0) return false;
  if (peer.ss_family != own.ss_family) return false;
  if (peer.ss_family == AF_INET) {
    return reinterpret_cast<sockaddr_in&>(peer).sin_addr.s_addr ==
           reinterpret_cast<sockaddr_in&>(own).sin_addr.s_addr;
  }
  return peer.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<sockaddr_in6&>(peer).sin6_addr,
                     &reinterpret_cast<sockaddr_in6&>(own).sin6_addr, sizeof(in6_addr)) == 0;
}

io_result failure(int problem) {
  if (problem == EAGAIN || problem == EWOULDBLOCK) return {io::would_wait, 0, 0};
  return {io::failed, 0, problem};
}

bool wait_for(int fd, short events, std::chrono::microseconds at_most) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  for (;;) {
    pollfd item{fd, events, 0};
    timespec limit{};
    if (at_most.count() >= 0) {
      auto left = until - std::chrono::steady_clock::now();
      if (left.count() < 0) left = left.zero();
      limit.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
      limit.tv_nsec = (left % std::chrono::seconds(1)).count();
    }
    const int ready = ppoll(&item, 1, at_most.count() < 0 ? nullptr : &limit, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    return ready != 0;
  }
}

}  // namespace

std::string error_text(int problem) {
  return std::error_code(problem, std::generic_category()).message();
}

std::string error_text(const io_result& r) {
  if (r.status == io::closed) return "the peer closed the connection";
  return error_text(r.problem);
}

socket& socket::operator=(socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

socket::~socket() {
  close();
}

void socket::configure() {
  const int flags = fcntl(fd_, F_GETFL);
  if (flags >= 0) fcntl(fd_, F_SETFL, flags & ~O_NONBLOCK);
  fcntl(fd_, F_SETFD, FD_CLOEXEC);
  const auto set = [this](int level, int name, int value) {
    setsockopt(fd_, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, limits::keepalive_idle_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, limits::keepalive_interval_s);
  set(IPPROTO_TCP, TCP_KEEPCNT, limits::keepalive_probes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, limits::user_timeout_ms);
  if (same_host(fd_)) setsockopt(fd_, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
}

io_result socket::send_now(std::span<const std::byte> data) {
  for (;;) {
    const auto n = ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return {io::done, static_cast<std::size_t>(n), 0};
    if (errno != EINTR) return failure(errno);
  }
}

io_result socket::receive_now(std::span<std::byte> space) {
  for (;;) {
    const auto n = ::recv(fd_, space.data(), space.size(), MSG_DONTWAIT);
    if (n > 0) return {io::done, static_cast<std::size_t>(n), 0};
    if (n == 0) return {io::closed, 0, 0};
    if (errno != EINTR) return failure(errno);
  }
}

io_result socket::send_all(iovec* parts, int count) {
  std::size_t total = 0;
  while (count > 0) {
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<std::size_t>(count);
    const auto n = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return {io::failed, total, errno};
      wait_writable(no_limit);
      continue;
    }
    total += static_cast<std::size_t>(n);
    auto taken = static_cast<std::size_t>(n);
    while (count > 0 && taken >= parts->iov_len) {
      taken -= parts->iov_len;
      ++parts;
      --count;
    }
    if (count > 0) {
      parts->iov_base = static_cast<char*>(parts->iov_base) + taken;
      parts->iov_len -= taken;
    }
  }
  return {io::done, total, 0};
}

io_result socket::receive_all(std::span<std::byte> space) {
  std::size_t total = 0;
  while (total < space.size()) {
    const auto n = ::recv(fd_, space.data() + total, space.size() - total, MSG_WAITALL);
    if (n == 0) return {io::closed, total, 0};
    if (n > 0) {
      total += static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return {io::failed, total, errno};
    wait_readable(no_limit);
  }
  return {io::done, total, 0};
}

io_result socket::receive_some(std::span<std::byte> space) {
  for (;;) {
    const auto n = ::recv(fd_, space.data(), space.size(), 0);
    if (n > 0) return {io::done, static_cast<std::size_t>(n), 0};
    if (n == 0) return {io::closed, 0, 0};
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return {io::failed, 0, errno};
    wait_readable(no_limit);
  }
}

bool socket::wait_readable(std::chrono::microseconds at_most) {
  return wait_for(fd_, POLLIN, at_most);
}
bool socket::wait_writable(std::chrono::microseconds at_most) {
  return wait_for(fd_, POLLOUT, at_most);
}

bool socket::wait_peer_closed(std::chrono::microseconds at_most) {
  return wait_for(fd_, POLLRDHUP, at_most);
}

void socket::shut_down_sending() {
  if (fd_ >= 0) ::shutdown(fd_, SHUT_WR);
}
void socket::shut_down() {
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}
void socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace gpuwire::wire::net
