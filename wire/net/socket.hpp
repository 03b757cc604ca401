// SPDX-License-Identifier: Apache-2.0
// A connected stream socket and the few operations that the hot path needs on it. Blocking by
// default; "now" operations never wait. Never raises SIGPIPE. Any thread may use one; who may use
// it together with whom is the owner's business.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace gpuwire::wire::net {

enum class io { done, would_wait, closed, failed };

// What one operation came to. `problem` is an errno value when status is failed.
struct io_result {
  io status = io::done;
  std::size_t bytes = 0;
  int problem = 0;
};

std::string error_text(int problem);       // of an errno value
std::string error_text(const io_result&);  // "the peer closed the connection" or the system's words

class socket {
 public:
  socket() = default;
  explicit socket(int fd) : fd_(fd) {}
  socket(socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  socket& operator=(socket&& other) noexcept;
  ~socket();

  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }  // the caller closes it
  bool open() const { return fd_ >= 0; }

  // Blocking mode, close-on-exec, no delay, keepalive and user timeout; cubic between processes of
  // one host, where a congestion control that paces by measured bandwidth is unstable. Options that
  // the system lacks are left alone.
  void configure();

  io_result send_now(std::span<const std::byte> data);
  io_result receive_now(std::span<std::byte> space);
  io_result send_all(iovec* parts, int count);         // waits; changes the parts
  io_result receive_all(std::span<std::byte> space);   // waits until the space is full
  io_result receive_some(std::span<std::byte> space);  // waits for at least one byte

  // True when it can be read (or is broken) within the time; negative: no limit.
  bool wait_readable(std::chrono::microseconds at_most);
  bool wait_writable(std::chrono::microseconds at_most);
  bool wait_peer_closed(std::chrono::microseconds at_most);

  void shut_down_sending();
  void shut_down();  // wakes every thread that waits on the socket; the descriptor stays
  void close();      // says nothing to the peer while another process holds the same socket

 private:
  int fd_ = -1;
};

inline constexpr std::chrono::microseconds no_limit{-1};

}  // namespace gpuwire::wire::net
