// SPDX-License-Identifier: Apache-2.0
// The answering end of a session, inside a worker process. The executor thread owns next_frame() and wait_readable();
// replies, pushes and bulk sends may come from any thread. Nothing here knows CUDA.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "wire/codec.hpp"
#include "wire/error.hpp"
#include "wire/header.hpp"

namespace gpuwire::wire {

// light: a connection of its own, without a session; see light_client.hpp.
enum class connection_role : std::uint8_t { command = 1, side = 2, bulk = 3, light = 4 };

// A command as received; body stays valid until the next next_frame().
struct received_frame {
  frame_header header;
  std::span<const std::byte> body;
};

// Where the bytes of one incoming bulk transfer go. Called on the bulk receive threads (several at once when there are several
// connections), which must never wait for the executor or for a driver call that waits for the GPU.
class bulk_sink {
 public:
  virtual ~bulk_sink() = default;
  // Memory for [offset, offset + bytes) of the transfer, or an empty span to refuse (ends the session: the peer broke a rule).
  // May block until a staging slot is free.
  virtual std::span<std::byte> place(std::uint64_t offset, std::uint32_t bytes) = 0;
  virtual void arrived(std::uint64_t offset, std::uint32_t bytes) = 0;
  // The session ended before the transfer was complete. Once, after every chunk in progress has ended; a place() that
  // still waits for a slot then has to be ended by whoever learns of the loss from options::on_lost.
  virtual void lost() = 0;
};

class server_session {
 public:
  struct options {
    bool loopback_cubic = false;
    std::function<void(error, const std::string&)> on_lost;  // any thread, once: logged reason
    // Side thread; must not block; the decoder is valid inside only. False: the client broke a rule.
    std::function<bool(std::uint16_t call, std::uint32_t lane, decoder& body)> on_notice;
  };
  // Takes ownership of the command socket. attach() adds the others as they arrive; pushes and bulk data that are sent
  // before that wait. The destructor ends the session and waits for its threads.
  static std::unique_ptr<server_session> create(int command_fd, options o);
  virtual ~server_session() = default;
  virtual void attach(connection_role role, int fd) = 0;

  // Executor only. The next complete command if one is there, without blocking (one non-blocking receive at most);
  // nothing if none is. A malformed or oversized frame ends the session: state() says why.
  virtual std::optional<received_frame> next_frame() = 0;
  virtual bool wait_readable(std::chrono::microseconds at_most) = 0;  // false on timeout
  virtual error state() const = 0;
  virtual bool said_goodbye() const = 0;  // then state() is shut_down and on_lost is not called
  virtual const std::string& state_text() const = 0;

  // Reply body after {answers, push_mark, result}; push_mark is filled in from the pushes sent so far.
  template <class Message>
  error reply(std::uint64_t answers, std::uint32_t lane, std::int32_t result, const Message& m) {
    return send_reply(answers, lane, result, encoded_bytes(m), &m, &encode_thunk<Message>);
  }
  template <class Message>
  error push(const Message& m, std::uint16_t call, std::uint32_t lane = 0) {
    return send_push(call, lane, encoded_bytes(m), &m, &encode_thunk<Message>);
  }

  // Incoming bulk data of the command with this sequence. Chunks that arrive before the sink is known wait in the socket,
  // and with them all that is behind them: every command with the bulk flag needs this call, a refused one with a null
  // sink, which throws the data away.
  virtual void expect_bulk(std::uint64_t command_sequence, std::shared_ptr<bulk_sink> sink, std::uint64_t total_bytes) = 0;
  // Bulk data that no reply covers: the client expects it since the posted command with this sequence. Blocks as below.
  virtual error send_unasked_bulk(std::uint64_t command_sequence, std::span<const std::byte> data) = 0;
  // Outgoing bulk data; blocks while the socket is full, so never on the executor. Before the reply that covers it.
  virtual error send_bulk(std::uint64_t command_sequence, std::uint64_t offset, std::span<const std::byte> data) = 0;

 protected:
  using encode_function = void (*)(const void* message, encoder& e);
  template <class Message>
  static void encode_thunk(const void* m, encoder& e) { encode_into(*static_cast<const Message*>(m), e); }
  virtual error send_reply(std::uint64_t answers, std::uint32_t lane, std::int32_t result, std::size_t body_bytes,
                           const void* message, encode_function encode) = 0;
  virtual error send_push(std::uint16_t call, std::uint32_t lane, std::size_t body_bytes, const void* message,
                          encode_function encode) = 0;
};

}  // namespace gpuwire::wire
