// SPDX-License-Identifier: Apache-2.0
#include "wire/light_server.hpp"

#include <cstring>

#include "wire/codec.hpp"
#include "wire/frame_buffer.hpp"
#include "wire/limits.hpp"
#include "wire/net/socket.hpp"

namespace gpuwire::wire {
namespace {

// Borrows the descriptor: the owner closes it.
class borrowed_socket {
 public:
  explicit borrowed_socket(int fd) : socket_(fd) {}
  ~borrowed_socket() { socket_.release(); }
  net::socket& operator*() { return socket_; }
  net::socket* operator->() { return &socket_; }

 private:
  net::socket socket_;
};

net::io_result send_answer(net::socket& s, std::uint64_t sequence, light_answer& a) {
  a.body.resize(padded_to_8(a.body.size()));
  struct {
    frame_header header;
    reply_prefix prefix;
  } fixed;
  fixed.header.body_bytes = static_cast<std::uint32_t>(reply_prefix_bytes + a.body.size());
  fixed.header.kind = frame_kind::reply;
  fixed.header.sequence = fixed.header.ack = fixed.prefix.answers = sequence;
  fixed.prefix.result = a.result;
  iovec parts[2] = {{&fixed, sizeof fixed}, {a.body.data(), a.body.size()}};
  return s.send_all(parts, 2);
}

}  // namespace

std::string serve_light(int fd,
                        const std::function<bool(const light_question&, light_answer&)>& handle) {
  borrowed_socket s(fd);
  s->configure();
  frame_buffer in(8u << 10, limits::light_body_bytes_max);
  std::uint64_t sequence = 0;
  for (;;) {
    frame_header header;
    std::span<const std::byte> body;
    const auto status = in.next(header, body);
    if (status == frame_buffer::status::incomplete) {
      const auto received = s->receive_some(in.space());
      if (received.status != net::io::done) return net::error_text(received);
      in.filled(received.bytes);
      continue;
    }
    if (status != frame_buffer::status::complete)
      return std::string("the client sent ") + describe(status);
    if (header.kind != frame_kind::command_called || header.flags != 0 ||
        header.sequence != ++sequence)
      return "the client sent a frame that does not belong on a light connection";
    light_answer a;
    if (!handle({header.call, header.lane, body}, a)) return "the client sent a malformed question";
    if (a.body.size() > limits::light_body_bytes_max - 64)
      return "the answer is above the size limit";
    const auto sent = send_answer(*s, sequence, a);
    if (sent.status != net::io::done) return net::error_text(sent);
  }
}

}  // namespace gpuwire::wire
