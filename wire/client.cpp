// SPDX-License-Identifier: Apache-2.0
#include "wire/client.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "wire/bulk_sender.hpp"
#include "wire/command_stream.hpp"
#include "wire/delivery_board.hpp"
#include "wire/frame_buffer.hpp"
#include "wire/limits.hpp"
#include "wire/net/connect.hpp"
#include "wire/outgoing.hpp"
#include "wire/parking.hpp"
#include "wire/reply_board.hpp"
#include "wire/thread.hpp"

namespace gpuwire::wire {
namespace {

class session_client final : public client {
 public:
  explicit session_client(client_options o)
      : options_(std::move(o)), name_(to_string(options_.server)), cores_(usable_cores()) {}
  ~session_client() override;

  std::variant<std::monostate, connect_failure> open();

  std::uint64_t appended() const override { return stream_.appended(); }
  error flush() override { return stream_.send_until(stream_.appended()); }
  void goodbye(std::chrono::milliseconds deadline) override;
  void abandon_after_fork() override;
  error state() const override { return state_.code(); }
  const std::string& state_text() const override { return state_.text(); }
  const std::string& server_name() const override { return name_; }
  statistics stats() const override;
  error send_upload(std::uint64_t sequence, std::span<const std::byte> data) override;
  bool deliver(std::uint64_t sequence, std::span<const std::byte> data) override {
    return deliveries_.deliver(sequence, data);
  }
  bool announce_delivery(std::uint64_t sequence) override { return deliveries_.announce(sequence); }
  void withdraw_delivery(std::uint64_t sequence) override { deliveries_.withdraw(sequence); }
  error settle_deliveries() override {
    return deliveries_.wait_announced() ? error::ok : state_.code();
  }
  bool is_receiving(std::span<const std::byte> memory) const override {
    return deliveries_.expects_into(memory);
  }

 protected:
  error append(const command& c, std::size_t body_bytes, const void* message,
               encode_function encode, reply* out, const transfer* t) override;
  error append_beside(const command& c, std::size_t body_bytes, const void* message,
                      encode_function encode, std::span<std::byte> into,
                      std::uint64_t* sequence) override;
  error send_notice(std::uint16_t call, std::uint32_t lane, std::size_t body_bytes,
                    const void* message, encode_function encode) override;

 private:
  void fail(error code, const std::string& why);
  void release_everybody();
  void shut_down_sockets();
  std::variant<std::monostate, connect_failure> start_threads();
  error send_bulk(std::uint64_t sequence, std::span<const std::byte> data);
  error wait_for_pushes(std::uint64_t mark);
  void read_side();
  bool take_side_frame(const frame_header& header, std::span<const std::byte> body);
  bool answer_ping(std::uint64_t sequence);
  void read_bulk(net::socket& connection);

  const client_options options_;
  const std::string name_;
  const int cores_;
  session_state state_;
  thread_group threads_;

  net::socket command_, side_;
  std::vector<net::socket> bulk_;  // complete before the threads start

  const std::function<void(error, const std::string&)> fail_ =
      [this](error code, const std::string& why) { fail(code, why); };
  command_stream stream_{command_, state_, cores_, fail_};
  reply_board board_{command_, state_, cores_, fail_};
  bulk_sender sender_{state_, threads_};
  outgoing notices_{state_, threads_, fail_};
  delivery_board deliveries_{state_};

  std::atomic<std::uint64_t> pushes_{0};  // handled; written by the side thread
  std::atomic<std::uint32_t> push_epoch_{0}, push_sleepers_{0};
  std::atomic<std::uint64_t> bulk_sent_{0}, bulk_received_{0};
};

session_client::~session_client() {
  if (state_.end(error::shut_down, "the client was destroyed")) release_everybody();
  threads_.wait();
}

std::variant<std::monostate, connect_failure> session_client::open() {
  if (options_.token.size() > limits::token_bytes_max)
    return connect_failure{error::limit_exceeded, "the token is too long"};
  net::connector connector(options_.server, options_.token, options_.connect_deadline);
  hello h;
  h.process_key = options_.process_key;
  h.environment = options_.environment;
  welcome w;
  const auto connect = [&](connection_role role,
                           net::socket& into) -> std::optional<connect_failure> {
    h.role = role;
    auto result = connector.open(h, w);
    if (auto* failure = std::get_if<connect_failure>(&result)) return std::move(*failure);
    into = std::move(std::get<net::socket>(result));
    return {};
  };
  if (auto failure = connect(connection_role::command, command_)) return *failure;
  h.session = w.session;
  h.environment.clear();
  if (auto failure = connect(connection_role::side, side_)) return *failure;
  const auto count =
      std::clamp<std::uint32_t>(options_.bulk_connections, 1, limits::bulk_connections_max);
  bulk_.resize(count);
  for (auto& connection : bulk_) {
    if (auto failure = connect(connection_role::bulk, connection)) return *failure;
  }
  if (const int problem = stream_.open(); problem != 0) {
    return connect_failure{error::system_failure,
                           "no memory for the ring of commands (" + net::error_text(problem) + ")"};
  }
  return start_threads();
}

std::variant<std::monostate, connect_failure> session_client::start_threads() {
  notices_.attach(side_);
  bool started = threads_.start("gpuwire-side", [this] { read_side(); }) &&
                 threads_.start("gpuwire-writer", [this] { stream_.write_until_end(); });
  for (auto& connection : bulk_) {
    sender_.attach(connection);
    started = started &&
              threads_.start("gpuwire-bulk-rx", [this, &connection] { read_bulk(connection); });
  }
  if (started) return std::monostate{};
  return connect_failure{error::system_failure,
                         "the system allows no more threads; raise the limit of this process"};
}

error session_client::append(const command& c, std::size_t body_bytes, const void* message,
                             encode_function encode, reply* out, const transfer* t) {
  if (!state_.ok()) return state_.code();
  if (body_bytes > limits::frame_bytes_max) return error::limit_exceeded;
  std::uint64_t end = 0;
  command_stream::record r{frame_kind::command_posted, 0, c, body_bytes, message, encode};
  if (!out)
    return stream_.append(
        r, [](std::uint64_t) {}, end);

  r.kind = frame_kind::command_called;
  if (!t->send.empty()) r.flags = frame_flags::bulk;
  waiter w;
  w.out = out;
  w.receive = t->receive;
  auto code = stream_.append(
      r, [&](std::uint64_t sequence) { board_.add(w, sequence); }, end);
  if (code != error::ok) return code;
  code = stream_.send_until(end);
  if (code == error::ok && !t->send.empty()) code = send_bulk(w.sequence, t->send);
  if (code != error::ok) {
    board_.withdraw(w);
    return code;
  }
  code = board_.wait(w);
  if (code != error::ok) return code;
  stream_.note_reply(board_.last_reply());
  out->position = end;
  code = wait_for_pushes(w.push_mark);
  return code == error::ok ? settle_deliveries() : code;
}

error session_client::append_beside(const command& c, std::size_t body_bytes, const void* message,
                                    encode_function encode, std::span<std::byte> into,
                                    std::uint64_t* sequence) {
  if (!state_.ok()) return state_.code();
  if (body_bytes > limits::frame_bytes_max) return error::limit_exceeded;
  command_stream::record r{frame_kind::command_posted, 0, c, body_bytes, message, encode};
  if (sequence) r.flags = frame_flags::bulk;
  std::uint64_t end = 0;
  return stream_.append(
      r,
      [&](std::uint64_t given) {
        if (sequence)
          *sequence = given;
        else
          deliveries_.add(given, into);
      },
      end);
}

error session_client::send_upload(std::uint64_t sequence, std::span<const std::byte> data) {
  const auto code = flush();
  return code == error::ok ? send_bulk(sequence, data) : code;
}

error session_client::send_bulk(std::uint64_t sequence, std::span<const std::byte> data) {
  std::uint32_t chunks = 0;
  const auto result = sender_.send(sequence, 0, data, chunks);
  if (result.status != net::io::done) fail(error::connection_lost, net::error_text(result));
  bulk_sent_.fetch_add(data.size(), std::memory_order_relaxed);
  return state_.code();
}

error session_client::wait_for_pushes(std::uint64_t mark) {
  if (pushes_.load(std::memory_order_acquire) >= mark) return error::ok;
  for (const spin_limit limit(limits::spin_us); !limit.over(); relax()) {
    if (pushes_.load(std::memory_order_acquire) >= mark) return error::ok;
  }
  push_sleepers_.fetch_add(1);
  for (;;) {
    const auto epoch = push_epoch_.load();
    if (pushes_.load() >= mark || !state_.ok()) break;
    park(push_epoch_, epoch);
  }
  push_sleepers_.fetch_sub(1);
  return pushes_.load() >= mark ? error::ok : state_.code();
}

void session_client::read_side() {
  frame_buffer in(64u << 10, limits::frame_bytes_max);
  frame_header header;
  std::span<const std::byte> body;
  while (state_.ok()) {
    const auto result = side_.receive_some(in.space());
    if (result.status != net::io::done)
      return fail(error::connection_lost, net::error_text(result));
    in.filled(result.bytes);
    auto status = in.next(header, body);
    for (; status == frame_buffer::status::complete; status = in.next(header, body)) {
      if (!take_side_frame(header, body))
        return fail(error::protocol_violation,
                    "the server sent a frame that does not belong on the side connection");
    }
    if (status != frame_buffer::status::incomplete)
      return fail(error::protocol_violation, std::string("the server sent ") + describe(status));
  }
}

bool session_client::take_side_frame(const frame_header& header, std::span<const std::byte> body) {
  switch (header.kind) {
    case frame_kind::push: {
      if (header.sequence != pushes_.load(std::memory_order_relaxed) + 1) return false;
      decoder d(body.data(), body.size());
      if (options_.on_push) options_.on_push(header.call, header.lane, d);
      pushes_.store(header.sequence);
      if (push_sleepers_.load() != 0) {
        push_epoch_.fetch_add(1);
        unpark_all(push_epoch_);
      }
      return true;
    }
    case frame_kind::ping:
      return answer_ping(header.sequence);
    case frame_kind::pong:
    case frame_kind::ack:
      return true;
    default:
      return false;
  }
}

bool session_client::answer_ping(std::uint64_t sequence) {
  return notices_.send(frame_header_bytes, false, [&](std::uint64_t, std::byte* memory) {
    frame_header header;
    header.kind = frame_kind::pong;
    header.sequence = sequence;
    header.ack = pushes_.load(std::memory_order_relaxed);
    std::memcpy(memory, &header, sizeof header);
    return true;
  }) == error::ok;
}

error session_client::send_notice(std::uint16_t call, std::uint32_t lane, std::size_t body_bytes,
                                  const void* message, encode_function encode) {
  if (body_bytes > limits::frame_bytes_max) return error::limit_exceeded;
  return notices_.send(frame_header_bytes + body_bytes, true,
                       [&](std::uint64_t sequence, std::byte* memory) {
                         frame_header header;
                         header.body_bytes = static_cast<std::uint32_t>(body_bytes);
                         header.call = call;
                         header.kind = frame_kind::notice;
                         header.lane = lane;
                         header.sequence = sequence;
                         header.ack = pushes_.load(std::memory_order_relaxed);
                         std::memcpy(memory, &header, sizeof header);
                         encoder e(memory + frame_header_bytes, body_bytes);
                         encode(message, e);
                         return e.ok() && e.size() == body_bytes;
                       });
}

void session_client::read_bulk(net::socket& connection) {
  while (state_.ok()) {
    bulk_header header;
    auto result = connection.receive_all(std::as_writable_bytes(std::span(&header, 1)));
    if (result.status != net::io::done)
      return fail(error::connection_lost, net::error_text(result));
    const auto sequence = header.command_sequence;
    const bool sane =
        header.bytes >= 1 && header.bytes <= limits::bulk_chunk_bytes && header.flags == 0;
    auto place = sane ? board_.chunk_place(sequence, header.offset, header.bytes)
                      : std::span<std::byte>();
    const bool for_caller = !place.empty();
    if (sane && !for_caller) place = deliveries_.chunk_place(sequence, header.offset, header.bytes);
    if (place.empty())
      return fail(error::protocol_violation, "the server sent bulk data that nobody waits for");
    result = connection.receive_all(place);
    if (for_caller) board_.chunk_done(sequence, result.status == net::io::done);
    bulk_received_.fetch_add(result.bytes, std::memory_order_relaxed);
    if (result.status != net::io::done)
      return fail(error::connection_lost, net::error_text(result));
    if (!for_caller && deliveries_.chunk_done(sequence, header.bytes) && options_.on_received)
      options_.on_received(sequence);
  }
}

void session_client::fail(error code, const std::string& why) {
  const std::string text = code == error::protocol_violation
                               ? "the session with " + name_ + " was ended: " + why +
                                     "; are both sides of the same release?"
                               : "the connection to " + name_ + " was lost: " + why +
                                     "; see whether gpuwired still runs there and what its log "
                                     "says, then start this program again";
  if (!state_.end(code, text)) return;
  release_everybody();
  if (options_.on_lost) options_.on_lost(code, text);
}

// Wakes everybody who waits for anything; they find the state.
void session_client::release_everybody() {
  shut_down_sockets();
  stream_.wake_writer();
  board_.release_all();
  deliveries_.release_all();
  sender_.release_all();
  push_epoch_.fetch_add(1);
  unpark_all(push_epoch_);
}

void session_client::shut_down_sockets() {
  command_.shut_down();
  side_.shut_down();
  for (auto& connection : bulk_) connection.shut_down();
}

void session_client::goodbye(std::chrono::milliseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  // First the state: a server that hangs up on our goodbye is no loss.
  if (!state_.end(error::shut_down, "this process has ended its session with " + name_)) return;
  stream_.say_goodbye(until);
  command_.shut_down_sending();
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
      until - std::chrono::steady_clock::now());
  // Closing while replies are on their way would reset the connection, and the goodbye could be
  // lost with it.
  if (left.count() > 0) command_.wait_peer_closed(left);
  release_everybody();
}

void session_client::abandon_after_fork() {
  state_.end_after_fork(error::shut_down);
  command_.close();
  side_.close();
  for (auto& connection : bulk_) connection.close();
}

client::statistics session_client::stats() const {
  statistics s;
  s.posted = stream_.posted();
  s.called = stream_.called();
  s.sends = stream_.sends();
  s.waits = board_.waits();
  s.bytes_sent = stream_.bytes_sent() + bulk_sent_.load(std::memory_order_relaxed);
  s.bytes_received = board_.bytes_received() + bulk_received_.load(std::memory_order_relaxed);
  s.pushes = pushes_.load(std::memory_order_relaxed);
  return s;
}

}  // namespace

std::variant<std::unique_ptr<client>, connect_failure> client::connect(client_options options) {
  try {
    auto result = std::make_unique<session_client>(std::move(options));
    auto opened = result->open();
    if (auto* failure = std::get_if<connect_failure>(&opened)) return std::move(*failure);
    return result;
  } catch (const std::exception& e) {
    return connect_failure{error::system_failure, e.what()};
  }
}

}  // namespace gpuwire::wire
