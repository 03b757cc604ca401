// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_tcp.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <latch>
#include <semaphore>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace gpuwire::bench {
namespace {

using clock_type = std::chrono::steady_clock;
constexpr std::size_t piece_bytes_max = 4 << 20;

[[noreturn]] void fail(const char* what) { throw std::runtime_error(std::string(what) + ": " + std::strerror(errno)); }

class socket_pair {  // two connected loopback TCP sockets
 public:
  socket_pair() {
    const int listener = make();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), bytes) != 0) fail("bind");
    if (listen(listener, 1) != 0) fail("listen");
    if (getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) fail("getsockname");
    near_ = make();
    if (connect(near_, reinterpret_cast<sockaddr*>(&address), bytes) != 0) fail("connect");
    far_ = accept(listener, nullptr, nullptr);
    if (far_ < 0) fail("accept");
    close(listener);
    for (int fd : {near_, far_}) {
      const int on = 1;
      if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) fail("TCP_NODELAY");
    }
  }
  socket_pair(const socket_pair&) = delete;
  socket_pair(socket_pair&& other) noexcept
      : near_(std::exchange(other.near_, -1)), far_(std::exchange(other.far_, -1)) {}
  ~socket_pair() {
    if (near_ >= 0) close(near_);
    if (far_ >= 0) close(far_);
  }
  int near_end() const { return near_; }
  int far_end() const { return far_; }
  void end() const {
    shutdown(near_, SHUT_RDWR);
    shutdown(far_, SHUT_RDWR);
  }

 private:
  static int make() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("socket");
    // A system without the module keeps its default: then both sides of the comparison have it.
    [[maybe_unused]] const int ignored = setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    return fd;
  }
  int near_ = -1, far_ = -1;
};

bool send_all(int fd, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(fd, data, std::min(bytes, piece_bytes_max), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, char* data, std::size_t bytes, int flags) {
  while (bytes > 0) {
    const ssize_t received = recv(fd, data, std::min(bytes, piece_bytes_max), flags);
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (received <= 0) return false;
    data += received;
    bytes -= static_cast<std::size_t>(received);
  }
  return true;
}

}  // namespace

struct raw_round_trip::parts {
  socket_pair sockets;
  std::counting_semaphore<> start{0};
  std::size_t count = 0;
  bool stop = false;
  std::thread echo;

  // Spins only while a measurement runs, so that it does not disturb what is measured beside it.
  void serve() {
    std::array<char, 64> message;
    for (;;) {
      start.acquire();
      if (stop) return;
      for (std::size_t i = 0; i < count; ++i) {
        if (!receive_all(sockets.far_end(), message.data(), message.size(), MSG_DONTWAIT)) return;
        if (!send_all(sockets.far_end(), message.data(), message.size())) return;
      }
    }
  }
};

raw_round_trip::raw_round_trip() : parts_(std::make_unique<parts>()) {
  parts_->echo = std::thread([this] { parts_->serve(); });
}

raw_round_trip::~raw_round_trip() {
  parts_->stop = true;
  parts_->start.release();
  parts_->sockets.end();
  parts_->echo.join();
}

std::vector<double> raw_round_trip::measure_us(std::size_t count) {
  std::array<char, 64> message{};
  std::vector<double> times;
  times.reserve(count);
  parts_->count = count;
  parts_->start.release();
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = clock_type::now();
    if (!send_all(parts_->sockets.near_end(), message.data(), message.size())) fail("send");
    if (!receive_all(parts_->sockets.near_end(), message.data(), message.size(), MSG_DONTWAIT)) fail("receive");
    times.push_back(std::chrono::duration<double, std::micro>(clock_type::now() - begin).count());
  }
  return times;
}

struct raw_throughput::parts {
  struct lane {
    socket_pair sockets;
    std::span<char> source, target;
  };
  std::vector<lane> lanes;
};

raw_throughput::raw_throughput(std::size_t connections, std::vector<char>& source, std::vector<char>& target)
    : parts_(std::make_unique<parts>()) {
  const std::size_t share = source.size() / connections;
  for (std::size_t i = 0; i < connections; ++i) {
    parts_->lanes.push_back(
        {socket_pair(), std::span(source).subspan(i * share, share), std::span(target).subspan(i * share, share)});
  }
}

raw_throughput::raw_throughput(raw_throughput&&) noexcept = default;
raw_throughput::~raw_throughput() = default;

double raw_throughput::measure_seconds() {
  std::latch ready(static_cast<std::ptrdiff_t>(2 * parts_->lanes.size() + 1));
  std::vector<std::thread> threads;
  std::atomic<bool> good{true};
  for (auto& lane : parts_->lanes) {
    threads.emplace_back([&lane, &ready, &good] {
      ready.arrive_and_wait();
      if (!send_all(lane.sockets.near_end(), lane.source.data(), lane.source.size())) good = false;
    });
    threads.emplace_back([&lane, &ready, &good] {
      ready.arrive_and_wait();
      if (!receive_all(lane.sockets.far_end(), lane.target.data(), lane.target.size(), 0)) good = false;
    });
  }
  ready.arrive_and_wait();
  const auto begin = clock_type::now();
  for (auto& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(clock_type::now() - begin).count();
  if (!good) throw std::runtime_error("a raw connection broke while it was measured");
  return seconds;
}

double memory_copy_seconds(std::vector<char>& target, const std::vector<char>& source) {
  const auto begin = clock_type::now();
  std::memcpy(target.data(), source.data(), std::min(target.size(), source.size()));
  // Without a look at the result the copy could be left out.
  volatile char last = target.back();
  [[maybe_unused]] const char seen = last;
  return std::chrono::duration<double>(clock_type::now() - begin).count();
}

}  // namespace gpuwire::bench
