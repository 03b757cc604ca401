// SPDX-License-Identifier: Apache-2.0
// The fixed parts of what travels: the frame header of the command and side connections, the prefix of a reply's body and
// the header of a bulk chunk. They are copied to and from the wire as they are, which is why a big-endian build is refused.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpuwire::wire {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

enum class frame_kind : std::uint8_t {
  command_posted = 1,  // client to server, nobody waits
  command_called = 2,  // client to server, answered by one reply
  reply = 3,           // server to client, command connection
  push = 4,            // server to client, side connection
  goodbye = 5,         // client to server: the session is over and nothing is to be kept
  ping = 6,
  pong = 7,
  ack = 8,             // nothing but the ack field
  notice = 9,          // client to server, side connection: no part of the ordered stream
};

namespace frame_flags {
inline constexpr std::uint8_t bulk = 1;      // data of this command follows on the bulk connections
inline constexpr std::uint8_t known = bulk;  // a frame with any other flag is refused
}  // namespace frame_flags

struct frame_header {
  std::uint32_t body_bytes = 0;  // a multiple of 8
  std::uint16_t call = 0;
  frame_kind kind{};
  std::uint8_t flags = 0;
  std::uint32_t lane = 0;
  std::uint32_t context = 0;
  std::uint64_t sequence = 0;  // of the sender on this connection, from 1, never wraps
  std::uint64_t ack = 0;       // highest sequence of the peer that was fully processed
};
inline constexpr std::size_t frame_header_bytes = 32;

struct reply_prefix {
  std::uint64_t answers = 0;    // sequence of the command
  std::uint64_t push_mark = 0;  // pushes that must have been handled before the caller goes on
  std::int32_t result = 0;
  std::uint32_t bulk_chunks = 0;  // how many chunks for this command were sent on the bulk connections
};
inline constexpr std::size_t reply_prefix_bytes = 24;

struct bulk_header {
  std::uint64_t command_sequence = 0;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;  // 1 .. bulk_chunk_bytes, followed by as many bytes
  std::uint32_t flags = 0;  // zero
};
inline constexpr std::size_t bulk_header_bytes = 24;

static_assert(sizeof(frame_header) == frame_header_bytes && offsetof(frame_header, call) == 4 &&
              offsetof(frame_header, kind) == 6 && offsetof(frame_header, flags) == 7 &&
              offsetof(frame_header, lane) == 8 && offsetof(frame_header, context) == 12 &&
              offsetof(frame_header, sequence) == 16 && offsetof(frame_header, ack) == 24);
static_assert(sizeof(reply_prefix) == reply_prefix_bytes && offsetof(reply_prefix, result) == 16);
static_assert(sizeof(bulk_header) == bulk_header_bytes && offsetof(bulk_header, bytes) == 16);
static_assert(std::has_unique_object_representations_v<frame_header> &&
              std::has_unique_object_representations_v<reply_prefix> &&
              std::has_unique_object_representations_v<bulk_header>);
static_assert(std::is_trivially_copyable_v<frame_header>);

}  // namespace gpuwire::wire
