// SPDX-License-Identifier: Apache-2.0
#include "wire/server.hpp"

#include <atomic>
#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>

#include "wire/bulk_sender.hpp"
#include "wire/frame_buffer.hpp"
#include "wire/incoming_bulk.hpp"
#include "wire/limits.hpp"
#include "wire/net/socket.hpp"
#include "wire/outgoing.hpp"
#include "wire/session_state.hpp"
#include "wire/thread.hpp"

namespace gpuwire::wire {
namespace {

class socket_session final : public server_session {
 public:
  socket_session(int command_fd, options o) : options_(std::move(o)), command_(command_fd) {
    command_.configure();
    replies_.attach(command_);
  }
  ~socket_session() override {
    if (state_.end(error::shut_down, "the session was closed")) release_everybody();
    threads_.wait();
  }

  void attach(connection_role role, int fd) override;
  std::optional<received_frame> next_frame() override;
  bool wait_readable(std::chrono::microseconds at_most) override;
  error state() const override { return state_.code(); }
  const std::string& state_text() const override { return state_.text(); }
  bool said_goodbye() const override { return goodbye_.load(std::memory_order_acquire); }
  void expect_bulk(std::uint64_t sequence, std::shared_ptr<bulk_sink> sink,
                   std::uint64_t total_bytes) override {
    incoming_.expect(sequence, std::move(sink), total_bytes);
  }
  error send_bulk(std::uint64_t sequence, std::uint64_t offset,
                  std::span<const std::byte> data) override;
  error send_unasked_bulk(std::uint64_t sequence, std::span<const std::byte> data) override;

 protected:
  error send_reply(std::uint64_t answers, std::uint32_t lane, std::int32_t result,
                   std::size_t body_bytes, const void* message, encode_function encode) override;
  error send_push(std::uint16_t call, std::uint32_t lane, std::size_t body_bytes,
                  const void* message, encode_function encode) override;

 private:
  bool accept_frame(const frame_header& header);
  void take_goodbye();
  std::uint32_t take_chunk_count(std::uint64_t sequence);
  void read_side(net::socket& side);
  bool take_side_frame(const frame_header& header, std::span<const std::byte> body);
  void fail(error code, const std::string& why);
  void release_everybody();

  const options options_;
  session_state state_;
  thread_group threads_;
  const std::function<void(error, const std::string&)> fail_ =
      [this](error code, const std::string& why) { fail(code, why); };

  net::socket command_;
  std::mutex connections_mutex_;
  std::list<net::socket> connections_;  // side and bulk; addresses are kept by threads

  // The executor's alone.
  frame_buffer received_{limits::receive_buffer_bytes, limits::frame_bytes_max};
  std::uint64_t last_sequence_ = 0;

  std::uint64_t last_notice_ = 0;  // the side thread's alone

  std::atomic<std::uint64_t> processed_{0};
  std::atomic<bool> goodbye_{false}, has_side_{false};
  outgoing replies_{state_, threads_, fail_}, pushes_{state_, threads_, fail_};
  incoming_bulk incoming_{state_, fail_};
  bulk_sender sender_{state_, threads_};
  std::mutex chunks_mutex_;
  std::unordered_map<std::uint64_t, std::uint32_t> chunks_sent_;  // by command, until its reply
};

void socket_session::attach(connection_role role, int fd) {
  net::socket incoming(fd);
  incoming.configure();
  net::socket* connection = nullptr;
  std::size_t bulk_count = 0;
  {
    std::lock_guard lock(connections_mutex_);
    if (!state_.ok()) return;
    connection = &connections_.emplace_back(std::move(incoming));
    bulk_count = connections_.size() - (has_side_.load() ? 1 : 0);
  }
  bool started = false;
  if (role == connection_role::side && !has_side_.exchange(true)) {
    started = threads_.start("gpuwire-side", [this, connection] { read_side(*connection); });
    if (started) pushes_.attach(*connection);
  } else if (role == connection_role::bulk && bulk_count <= limits::bulk_connections_max) {
    started =
        threads_.start("gpuwire-bulk-rx", [this, connection] { incoming_.receive(*connection); });
    if (started) sender_.attach(*connection);
  } else {
    return fail(error::protocol_violation, "the client opened a connection that it may not have");
  }
  if (!started) fail(error::system_failure, "the system allows no more threads");
}

std::optional<received_frame> socket_session::next_frame() {
  if (!state_.ok()) return {};
  processed_.store(last_sequence_, std::memory_order_relaxed);
  received_frame frame{};
  auto status = received_.next(frame.header, frame.body);
  if (status == frame_buffer::status::incomplete) {
    const auto result = command_.receive_now(received_.space());
    if (result.status == net::io::would_wait) return {};
    if (result.status != net::io::done) {
      fail(error::connection_lost, net::error_text(result));
      return {};
    }
    received_.filled(result.bytes);
    status = received_.next(frame.header, frame.body);
  }
  if (status == frame_buffer::status::incomplete) return {};
  if (status != frame_buffer::status::complete) {
    fail(error::protocol_violation, std::string("the client sent ") + describe(status));
    return {};
  }
  if (!accept_frame(frame.header)) return {};
  return frame;
}

// False: not a command, or one out of its place.
bool socket_session::accept_frame(const frame_header& header) {
  if (header.sequence != last_sequence_ + 1) {
    fail(error::protocol_violation, "the client sent command " + std::to_string(header.sequence) +
                                        " where " + std::to_string(last_sequence_ + 1) +
                                        " was due");
    return false;
  }
  last_sequence_ = header.sequence;
  if (header.kind == frame_kind::goodbye) {
    take_goodbye();
    return false;
  }
  if (header.kind != frame_kind::command_posted && header.kind != frame_kind::command_called) {
    fail(error::protocol_violation, "the client sent a frame that is no command");
    return false;
  }
  return true;
}

void socket_session::take_goodbye() {
  goodbye_.store(true, std::memory_order_release);
  // The client waits for this end before it goes.
  if (state_.end(error::shut_down, "the client said goodbye")) release_everybody();
}

bool socket_session::wait_readable(std::chrono::microseconds at_most) {
  if (!state_.ok() || received_.has_complete()) return true;
  return command_.wait_readable(at_most);
}

error socket_session::send_reply(std::uint64_t answers, std::uint32_t lane, std::int32_t result,
                                 std::size_t body_bytes, const void* message,
                                 encode_function encode) {
  const auto whole = reply_prefix_bytes + body_bytes;
  if (whole > limits::reply_bytes_max) return error::limit_exceeded;
  const reply_prefix prefix{answers, pushes_.last_sequence(), result, take_chunk_count(answers)};
  return replies_.send(frame_header_bytes + whole, true,
                       [&](std::uint64_t sequence, std::byte* memory) {
                         frame_header header;
                         header.body_bytes = static_cast<std::uint32_t>(whole);
                         header.kind = frame_kind::reply;
                         header.lane = lane;
                         header.sequence = sequence;
                         header.ack = processed_.load(std::memory_order_relaxed);
                         std::memcpy(memory, &header, sizeof header);
                         std::memcpy(memory + frame_header_bytes, &prefix, sizeof prefix);
                         encoder e(memory + frame_header_bytes + reply_prefix_bytes, body_bytes);
                         encode(message, e);
                         return e.ok() && e.size() == body_bytes;
                       });
}

error socket_session::send_push(std::uint16_t call, std::uint32_t lane, std::size_t body_bytes,
                                const void* message, encode_function encode) {
  if (body_bytes > limits::frame_bytes_max) return error::limit_exceeded;
  return pushes_.send(frame_header_bytes + body_bytes, true,
                      [&](std::uint64_t sequence, std::byte* memory) {
                        frame_header header;
                        header.body_bytes = static_cast<std::uint32_t>(body_bytes);
                        header.call = call;
                        header.kind = frame_kind::push;
                        header.lane = lane;
                        header.sequence = sequence;
                        header.ack = processed_.load(std::memory_order_relaxed);
                        std::memcpy(memory, &header, sizeof header);
                        encoder e(memory + frame_header_bytes, body_bytes);
                        encode(message, e);
                        return e.ok() && e.size() == body_bytes;
                      });
}

error socket_session::send_bulk(std::uint64_t sequence, std::uint64_t offset,
                                std::span<const std::byte> data) {
  std::uint32_t chunks = 0;
  const auto result = sender_.send(sequence, offset, data, chunks);
  if (result.status != net::io::done) fail(error::connection_lost, net::error_text(result));
  if (!state_.ok()) return state_.code();
  std::lock_guard lock(chunks_mutex_);
  chunks_sent_[sequence] += chunks;
  return error::ok;
}

error socket_session::send_unasked_bulk(std::uint64_t sequence, std::span<const std::byte> data) {
  std::uint32_t chunks = 0;
  const auto result = sender_.send(sequence, 0, data, chunks);
  if (result.status != net::io::done) fail(error::connection_lost, net::error_text(result));
  return state_.code();
}

std::uint32_t socket_session::take_chunk_count(std::uint64_t sequence) {
  std::lock_guard lock(chunks_mutex_);
  const auto found = chunks_sent_.find(sequence);
  if (found == chunks_sent_.end()) return 0;
  const auto count = found->second;
  chunks_sent_.erase(found);
  return count;
}

void socket_session::read_side(net::socket& side) {
  frame_buffer in(16u << 10, limits::frame_bytes_max);
  frame_header header;
  std::span<const std::byte> body;
  while (state_.ok()) {
    const auto result = side.receive_some(in.space());
    if (result.status != net::io::done)
      return fail(error::connection_lost, net::error_text(result));
    in.filled(result.bytes);
    auto status = in.next(header, body);
    for (; status == frame_buffer::status::complete; status = in.next(header, body)) {
      if (!take_side_frame(header, body)) {
        return fail(error::protocol_violation,
                    "the client sent a frame that does not belong on the side connection");
      }
    }
    if (status != frame_buffer::status::incomplete)
      return fail(error::protocol_violation, std::string("the client sent ") + describe(status));
  }
}

bool socket_session::take_side_frame(const frame_header& received,
                                     std::span<const std::byte> body) {
  switch (received.kind) {
    case frame_kind::notice: {
      if (received.sequence != ++last_notice_ || !options_.on_notice) return false;
      decoder d(body.data(), body.size());
      return options_.on_notice(received.call, received.lane, d);
    }
    case frame_kind::ping:
      return pushes_.send(frame_header_bytes, false, [&](std::uint64_t, std::byte* memory) {
        frame_header header;
        header.kind = frame_kind::pong;
        header.sequence = received.sequence;
        header.ack = processed_.load(std::memory_order_relaxed);
        std::memcpy(memory, &header, sizeof header);
        return true;
      }) == error::ok;
    case frame_kind::pong:
    case frame_kind::ack:
      return true;
    default:
      return false;
  }
}

void socket_session::fail(error code, const std::string& why) {
  if (!state_.end(code, why)) return;
  release_everybody();
  if (options_.on_lost) options_.on_lost(code, why);
}

// Wakes everybody who waits for anything; they find the state.
void socket_session::release_everybody() {
  command_.shut_down();
  {
    std::lock_guard lock(connections_mutex_);
    for (auto& connection : connections_) connection.shut_down();
  }
  incoming_.release_all();
  sender_.release_all();
}

}  // namespace

std::unique_ptr<server_session> server_session::create(int command_fd, options o) {
  return std::make_unique<socket_session>(command_fd, std::move(o));
}

}  // namespace gpuwire::wire
