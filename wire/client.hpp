// SPDX-License-Identifier: Apache-2.0
// The calling end of a session: one ordered command stream shared by all threads of the process, replies read by the
// callers themselves, pushes read by one parked thread, bulk data by one thread for each bulk connection.
//
// Thread safety: every member may be called from any thread. Nothing here throws; nothing knows CUDA.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "wire/codec.hpp"
#include "wire/endpoint.hpp"
#include "wire/error.hpp"
#include "wire/header.hpp"

namespace gpuwire::wire {

struct client_options {
  endpoint server;
  std::string token;  // empty: none to show
  std::chrono::milliseconds connect_deadline{10'000};  // whole start: resolve, connect with retries, handshake
  std::uint32_t bulk_connections = 1;                  // 1..4
  bool loopback_cubic = false;                         // ask for cubic on loopback sockets (measuring)
  std::vector<std::pair<std::string, std::string>> environment;  // the allow-listed CUDA_* variables of the process
  std::function<void(std::uint16_t call, std::uint32_t lane, decoder& body)> on_push;  // side thread; must not block; decoder valid inside only
  std::function<void(std::uint64_t sequence)> on_received;  // a bulk thread: all of a delivery is in; must not block
  std::function<void(error code, const std::string& text)> on_lost;  // once, any thread, after waiting callers were released
  std::uint64_t process_key = 0;  // the same for all connections of one process, so that the server can join them
};

// Says in words which server, why, and what to do.
struct connect_failure {
  error code{};
  std::string text;
};

struct command {
  std::uint16_t call = 0;
  std::uint32_t lane = 0;
  std::uint32_t context = 0;
};

// User memory that travels beside a called command on the bulk connections, never copied. Must stay valid until call() returns.
struct transfer {
  std::span<const std::byte> send;  // sent after the command; the daemon knows its length from the message
  std::span<std::byte> receive;     // filled before call() returns with result 0; shorter answers are legal
};

// One reply. The body's views point into `storage`, which lives as long as this object. Reused by a thread to avoid allocation.
class reply {
 public:
  std::int32_t result = 0;
  // Where the command ended in the ordered stream; equal to client::appended() while nothing came after it.
  std::uint64_t position = 0;
  decoder body() const { return decoder(storage_.data() + body_offset_, body_bytes_); }

 private:
  friend class client;
  friend struct client_parts;
  std::vector<std::byte> storage_;
  std::size_t body_offset_ = 0, body_bytes_ = 0;
};

class client {
 public:
  static std::variant<std::unique_ptr<client>, connect_failure> connect(client_options options);
  virtual ~client() = default;  // production code never destroys it: state of a client process is leaked on purpose

  // Appends and returns; error only if the connection is lost. The message is copied.
  template <class Message>
  [[nodiscard]] error post(const command& c, const Message& m) {
    return append(c, encoded_bytes(m), &m, &encode_thunk<Message>, nullptr, nullptr);
  }
  // Appends, sends all that lies before it, waits for the reply (spinning about 50 us before it blocks) and for the
  // pushes the reply presupposes.
  template <class Message>
  [[nodiscard]] error call(const command& c, const Message& m, reply& out, const transfer& t = {}) {
    return append(c, encoded_bytes(m), &m, &encode_thunk<Message>, &out, &t);
  }

  // As post(). Data will come into this memory without anybody waiting for it, see settle_deliveries().
  template <class Message>
  [[nodiscard]] error post_receiving(const command& c, const Message& m, std::span<std::byte> into) {
    return append_beside(c, encoded_bytes(m), &m, &encode_thunk<Message>, into, nullptr);
  }
  // As post(). Bulk data belongs to the command: send_upload() has to follow, with the sequence it was given.
  template <class Message>
  [[nodiscard]] error post_upload(const command& c, const Message& m, std::uint64_t& sequence) {
    return append_beside(c, encoded_bytes(m), &m, &encode_thunk<Message>, {}, &sequence);
  }
  virtual error send_upload(std::uint64_t sequence, std::span<const std::byte> data) = 0;  // waits while sockets are full

  // Deliveries, by the sequence of the command that asked for them. Side thread: false if there is none that fits.
  virtual bool deliver(std::uint64_t sequence, std::span<const std::byte> data) = 0;
  virtual bool announce_delivery(std::uint64_t sequence) = 0;   // the server has sent all of it
  virtual void withdraw_delivery(std::uint64_t sequence) = 0;   // it will not come
  // Waits until all deliveries are in that the server has sent. Every call() does so before it returns.
  virtual error settle_deliveries() = 0;
  virtual bool is_receiving(std::span<const std::byte> memory) const = 0;  // something will still come into it

  // Says something beside the ordered stream: it overtakes commands, and those are not sent for it. Does not wait.
  template <class Message>
  [[nodiscard]] error notify(std::uint16_t call, std::uint32_t lane, const Message& m) {
    return send_notice(call, lane, encoded_bytes(m), &m, &encode_thunk<Message>);
  }

  // The end of the ordered stream: grows with every command of any thread. No lock, no system call.
  virtual std::uint64_t appended() const = 0;
  virtual error flush() = 0;                                         // sends what was appended
  virtual void goodbye(std::chrono::milliseconds deadline) = 0;      // orderly end; bounded
  virtual void abandon_after_fork() = 0;                             // child of fork: forget the sockets without touching the peer
  virtual error state() const = 0;                                   // ok, or why the connection was lost
  virtual const std::string& state_text() const = 0;
  virtual const std::string& server_name() const = 0;                // "host:port", for messages
  struct statistics {
    std::uint64_t posted = 0, called = 0, sends = 0, waits = 0, bytes_sent = 0, bytes_received = 0, pushes = 0;
  };
  virtual statistics stats() const = 0;

 protected:
  using encode_function = void (*)(const void* message, encoder& e);
  template <class Message>
  static void encode_thunk(const void* m, encoder& e) { encode_into(*static_cast<const Message*>(m), e); }
  // out == nullptr: posted.
  virtual error append(const command& c, std::size_t body_bytes, const void* message, encode_function encode,
                       reply* out, const transfer* t) = 0;
  // sequence == nullptr: memory for a delivery; else a command with bulk data.
  virtual error append_beside(const command& c, std::size_t body_bytes, const void* message, encode_function encode,
                              std::span<std::byte> into, std::uint64_t* sequence) = 0;
  virtual error send_notice(std::uint16_t call, std::uint32_t lane, std::size_t body_bytes, const void* message,
                            encode_function encode) = 0;
};

}  // namespace gpuwire::wire
