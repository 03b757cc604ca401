// SPDX-License-Identifier: Apache-2.0
#include "daemon/tickets.hpp"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "daemon/control_channel.hpp"
#include "daemon/limits.hpp"

namespace gpuwire::daemon {
namespace {

bool fill_with_randomness(ticket& t) {
  std::size_t filled = 0;
  while (filled < t.size()) {
    const auto bytes = ::getrandom(t.data() + filled, t.size() - filled, 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return false;
    filled += static_cast<std::size_t>(bytes);
  }
  return true;
}

bool is_kind(std::byte b) {
  const auto n = std::to_integer<unsigned>(b);
  return n >= static_cast<unsigned>(ticket_kind::memory) &&
         n <= static_cast<unsigned>(ticket_kind::pool_pointer);
}

}  // namespace

std::array<std::byte, ticket_packet::packet_bytes> ticket_packet::encode() const {
  std::array<std::byte, packet_bytes> out{};
  out[0] = static_cast<std::byte>(what);
  out[1] = static_cast<std::byte>(kind);
  out[2] = static_cast<std::byte>(good);
  std::copy(name.begin(), name.end(), out.begin() + 4);
  std::copy(payload.begin(), payload.end(), out.begin() + 4 + ticket_bytes);
  return out;
}

std::optional<ticket_packet> ticket_packet::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != packet_bytes || !is_kind(bytes[1])) return std::nullopt;
  ticket_packet p;
  p.what = static_cast<action>(bytes[0]);
  if (p.what != action::keep && p.what != action::find) return std::nullopt;
  p.kind = static_cast<ticket_kind>(bytes[1]);
  p.good = bytes[2] == std::byte{1};
  std::copy_n(bytes.begin() + 4, ticket_bytes, p.name.begin());
  std::copy_n(bytes.begin() + 4 + ticket_bytes, ticket_payload_bytes_max, p.payload.begin());
  return p;
}

ticket_packet ticket_book::answer(const ticket_packet& asked, descriptor fd, std::uint32_t session,
                                  int& fd_with_it) {
  ticket_packet a;
  a.what = asked.what;
  a.kind = asked.kind;
  a.name = asked.name;
  fd_with_it = -1;
  if (asked.what == ticket_packet::action::keep) {
    auto& held = held_[session];
    if (held >= tickets_max_) return a;
    const auto [at, fresh] =
        entries_.try_emplace(asked.name, entry{asked.kind, session, asked.payload, {}});
    if (!fresh) return a;
    at->second.fd = std::move(fd);
    ++held;
    a.good = true;
    return a;
  }
  const auto found = entries_.find(asked.name);
  if (found == entries_.end() || found->second.kind != asked.kind) return a;
  a.good = true;
  a.payload = found->second.payload;
  if (found->second.fd) fd_with_it = found->second.fd.get();
  return a;
}

void ticket_book::forget_session(std::uint32_t session) {
  held_.erase(session);
  for (auto at = entries_.begin(); at != entries_.end();)
    at = at->second.session == session ? entries_.erase(at) : std::next(at);
}

void ticket_desk::open(descriptor channel) {
  std::lock_guard lock(mutex_);
  channel_ = std::move(channel);
  opened_.notify_all();
}

// One question at a time: the answers come in order.
std::optional<ticket_packet> ticket_desk::ask(const ticket_packet& question, int fd,
                                              descriptor& fd_back) {
  std::unique_lock lock(mutex_);
  if (!opened_.wait_for(lock, limits::ticket_deadline, [&] { return static_cast<bool>(channel_); }))
    return std::nullopt;
  const auto packet = question.encode();
  if (!send_packet(channel_.get(), packet, fd)) return std::nullopt;
  std::array<std::byte, ticket_packet::packet_bytes> received{};
  const auto until = std::chrono::steady_clock::now() + limits::ticket_deadline;
  for (;;) {
    const auto state = receive_packet(channel_.get(), received, fd_back);
    if (state == control_state::message) {
      const auto answer = ticket_packet::decode(received);
      // An answer to a question that was given up.
      if (answer && (answer->what != question.what || answer->name != question.name)) continue;
      return answer;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (state == control_state::closed || left.count() <= 0) return std::nullopt;
    pollfd waiting{channel_.get(), POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(left.count()));
  }
}

std::optional<ticket> ticket_desk::keep(ticket_kind kind, std::span<const std::byte> payload,
                                        int fd) {
  ticket_packet question;
  question.what = ticket_packet::action::keep;
  question.kind = kind;
  if (payload.size() > question.payload.size() || !fill_with_randomness(question.name))
    return std::nullopt;
  std::copy(payload.begin(), payload.end(), question.payload.begin());
  descriptor none;
  const auto answer = ask(question, fd, none);
  if (!answer || !answer->good) return std::nullopt;
  return question.name;
}

std::optional<ticket_desk::shared> ticket_desk::find(ticket_kind kind,
                                                     std::span<const std::byte> name) {
  if (name.size() != ticket_bytes) return std::nullopt;
  ticket_packet question;
  question.what = ticket_packet::action::find;
  question.kind = kind;
  std::copy(name.begin(), name.end(), question.name.begin());
  shared s;
  const auto answer = ask(question, -1, s.fd);
  if (!answer || !answer->good) return std::nullopt;
  s.payload = answer->payload;
  return s;
}

}  // namespace gpuwire::daemon
