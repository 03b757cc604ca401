// SPDX-License-Identifier: Apache-2.0
// Tickets: random bytes that stand for something one session's worker shares and another's may take. The main process keeps
// what they stand for, a few bytes or a descriptor, as long as the worker lives that shared it. All sessions of a daemon have
// shown the same secret, so a ticket is good for each of them and for nobody else.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "daemon/descriptor.hpp"

namespace gpuwire::daemon {

inline constexpr std::size_t ticket_bytes = 32;
inline constexpr std::size_t ticket_payload_bytes_max = 64;  // a handle of the driver
using ticket = std::array<std::byte, ticket_bytes>;

enum class ticket_kind : std::uint8_t {
  memory = 1,
  event = 2,
  allocation = 3,  // a descriptor
  pool = 4,        // a descriptor
  pool_pointer = 5,
};

// What travels between worker and main process, one packet each way for every question.
struct ticket_packet {
  enum class action : std::uint8_t { keep = 1, find = 2 };
  static constexpr std::size_t packet_bytes = 4 + ticket_bytes + ticket_payload_bytes_max;
  action what{};
  ticket_kind kind{};
  bool good = false;  // answers
  ticket name{};
  std::array<std::byte, ticket_payload_bytes_max> payload{};

  std::array<std::byte, packet_bytes> encode() const;
  static std::optional<ticket_packet> decode(std::span<const std::byte> bytes);
};

// The main process's. One thread, no I/O; descriptors close with their entries.
class ticket_book {
 public:
  explicit ticket_book(std::size_t tickets_max) : tickets_max_(tickets_max) {}
  // The answer to one packet, and the descriptor to send with it (-1 none), which stays the book's.
  ticket_packet answer(const ticket_packet& asked, descriptor fd, std::uint32_t session,
                       int& fd_with_it);
  void forget_session(std::uint32_t session);
  std::size_t size() const { return entries_.size(); }

 private:
  struct entry {
    ticket_kind kind{};
    std::uint32_t session = 0;
    std::array<std::byte, ticket_payload_bytes_max> payload{};
    descriptor fd;
  };
  std::size_t tickets_max_;
  std::map<ticket, entry> entries_;
  std::map<std::uint32_t, std::size_t> held_;  // by session
};

// The worker's: asks the main process and waits for the answer. Any thread but the executor.
class ticket_desk {
 public:
  // The watchdog's thread, when the main process has sent the channel.
  void open(descriptor channel);

  // Nothing: the main process does not answer, or holds too many of this session already.
  std::optional<ticket> keep(ticket_kind kind, std::span<const std::byte> payload, int fd = -1);
  struct shared {
    std::array<std::byte, ticket_payload_bytes_max> payload{};
    descriptor fd;
  };
  std::optional<shared> find(ticket_kind kind, std::span<const std::byte> name);

 private:
  std::optional<ticket_packet> ask(const ticket_packet& question, int fd, descriptor& fd_back);
  std::mutex mutex_;
  std::condition_variable opened_;
  descriptor channel_;
};

}  // namespace gpuwire::daemon
