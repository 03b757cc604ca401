// SPDX-License-Identifier: Apache-2.0
// Cuts a byte stream into frames without I/O: received bytes are put into space(), frames come out
// of next(). One linear buffer; a frame is handed out where it was received, its body aligned to 8.
// It grows for a frame that is larger than the buffer and shrinks back behind it. Used by one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "wire/header.hpp"

namespace gpuwire::wire {

class frame_buffer {
 public:
  enum class status {
    incomplete,
    complete,
    too_large,  // the body is announced above the limit
    malformed,  // unknown kind or flag, or a body that is no multiple of 8
  };

  frame_buffer(std::size_t capacity, std::uint32_t body_bytes_max);

  // Where to receive; never empty. Bodies handed out before are invalid from here on.
  std::span<std::byte> space();
  void filled(std::size_t bytes) { end_ += bytes; }

  // A frame is judged by its header, before its body is waited for. Failures are sticky.
  status next(frame_header& header, std::span<const std::byte>& body);
  bool has_complete() const;
  std::size_t bytes_buffered() const { return end_ - begin_; }

 private:
  status judge(frame_header& header) const;
  void move_to(std::size_t capacity);

  std::size_t capacity_usual_, capacity_ = 0;
  std::uint32_t body_bytes_max_;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t begin_ = 0, end_ = 0;
};

const char* describe(frame_buffer::status s);

}  // namespace gpuwire::wire
