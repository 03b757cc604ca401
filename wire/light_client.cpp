// SPDX-License-Identifier: Apache-2.0
#include "wire/light_client.hpp"

#include <cstring>
#include <mutex>

#include "wire/header.hpp"
#include "wire/limits.hpp"
#include "wire/net/connect.hpp"

namespace gpuwire::wire {
namespace {

class socket_light_client final : public light_client {
 public:
  socket_light_client(net::socket s, std::string name)
      : socket_(std::move(s)), name_(std::move(name)) {}

  error ask(std::uint16_t call, std::uint32_t fingerprint, std::span<const std::byte> body,
            answer& out) override {
    std::lock_guard lock(mutex_);
    if (code_ != error::ok) return code_;
    if (body.size() > limits::light_body_bytes_max) return error::limit_exceeded;
    if (!send(call, fingerprint, body)) return code_;
    return receive(out);
  }
  void abandon() override { socket_.close(); }
  const std::string& state_text() const override { return text_; }

 private:
  bool send(std::uint16_t call, std::uint32_t fingerprint, std::span<const std::byte> body) {
    frame_header header;
    header.body_bytes = static_cast<std::uint32_t>(body.size());
    header.call = call;
    header.kind = frame_kind::command_called;
    header.lane = fingerprint;
    header.sequence = ++sequence_;
    header.ack = sequence_ - 1;
    iovec parts[2] = {{&header, sizeof header}, {const_cast<std::byte*>(body.data()), body.size()}};
    const auto result = socket_.send_all(parts, 2);
    return result.status == net::io::done || lose(net::error_text(result));
  }

  error receive(answer& out) {
    struct {
      frame_header header;
      reply_prefix prefix;
    } fixed;
    static_assert(sizeof fixed == frame_header_bytes + reply_prefix_bytes);
    auto result = socket_.receive_all(std::as_writable_bytes(std::span(&fixed, 1)));
    if (result.status != net::io::done) lose(net::error_text(result));
    if (code_ != error::ok) return code_;
    const auto bytes = fixed.header.body_bytes;
    if (fixed.header.kind != frame_kind::reply || bytes < reply_prefix_bytes || bytes % 8 != 0 ||
        bytes > limits::light_body_bytes_max || fixed.prefix.answers != sequence_) {
      lose("the server's answer does not belong to the question", error::protocol_violation);
      return code_;
    }
    out.result = fixed.prefix.result;
    out.body.resize(bytes - reply_prefix_bytes);
    result = socket_.receive_all(out.body);
    if (result.status != net::io::done) lose(net::error_text(result));
    return code_;
  }

  bool lose(const std::string& why, error code = error::connection_lost) {
    code_ = code;
    text_ = "the connection to " + name_ + " was lost: " + why +
            "; see whether gpuwired still runs there and what its log says";
    socket_.shut_down();
    return false;
  }

  std::mutex mutex_;
  net::socket socket_;
  const std::string name_;
  std::uint64_t sequence_ = 0;
  error code_ = error::ok;
  std::string text_;
};

}  // namespace

std::variant<std::unique_ptr<light_client>, connect_failure> light_client::connect(options o) {
  try {
    if (o.token.size() > limits::token_bytes_max)
      return connect_failure{error::limit_exceeded, "the token is too long"};
    const auto name = to_string(o.server);
    net::connector connector(o.server, o.token, o.connect_deadline);
    hello h;
    h.role = connection_role::light;
    h.process_key = o.process_key;
    welcome w;
    auto opened = connector.open(h, w);
    if (auto* failure = std::get_if<connect_failure>(&opened)) return std::move(*failure);
    return std::make_unique<socket_light_client>(std::move(std::get<net::socket>(opened)), name);
  } catch (const std::exception& problem) {
    return connect_failure{error::system_failure, problem.what()};
  }
}

}  // namespace gpuwire::wire
