// SPDX-License-Identifier: Apache-2.0
#include "wire/frame_buffer.hpp"

#include <algorithm>
#include <cstring>

namespace gpuwire::wire {

// Less space than this is not worth a system call.
static constexpr std::size_t space_bytes_min = 4096;

const char* describe(frame_buffer::status s) {
  switch (s) {
    case frame_buffer::status::incomplete:
      return "an incomplete frame";
    case frame_buffer::status::complete:
      return "a complete frame";
    case frame_buffer::status::too_large:
      return "a frame above the size limit";
    case frame_buffer::status::malformed:
      return "a frame with a malformed header";
  }
  return "a frame";
}

frame_buffer::frame_buffer(std::size_t capacity, std::uint32_t body_bytes_max)
    : capacity_usual_(std::max(capacity, 2 * space_bytes_min)), body_bytes_max_(body_bytes_max) {
  move_to(capacity_usual_);
}

void frame_buffer::move_to(std::size_t capacity) {
  auto memory = std::make_unique_for_overwrite<std::byte[]>(capacity);
  const auto bytes = end_ - begin_;
  if (bytes != 0) std::memcpy(memory.get(), memory_.get() + begin_, bytes);
  memory_ = std::move(memory);
  capacity_ = capacity;
  begin_ = 0;
  end_ = bytes;
}

frame_buffer::status frame_buffer::judge(frame_header& header) const {
  if (end_ - begin_ < frame_header_bytes) return status::incomplete;
  std::memcpy(&header, memory_.get() + begin_, sizeof header);
  const bool known_kind =
      header.kind >= frame_kind::command_posted && header.kind <= frame_kind::notice;
  if (!known_kind || (header.flags & ~frame_flags::known) != 0 || header.body_bytes % 8 != 0)
    return status::malformed;
  if (header.body_bytes > body_bytes_max_) return status::too_large;
  return end_ - begin_ < frame_header_bytes + header.body_bytes ? status::incomplete
                                                                : status::complete;
}

std::span<std::byte> frame_buffer::space() {
  if (begin_ == end_) begin_ = end_ = 0;
  frame_header header;
  std::size_t needed = frame_header_bytes;
  if (judge(header) == status::incomplete && end_ - begin_ >= frame_header_bytes)
    needed += header.body_bytes;
  needed = std::max(needed, end_ - begin_ + space_bytes_min);
  if (needed > capacity_) {
    move_to(needed);
  } else if (capacity_ > capacity_usual_ && needed <= capacity_usual_) {
    move_to(capacity_usual_);
  } else if (begin_ + needed > capacity_) {
    std::memmove(memory_.get(), memory_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return {memory_.get() + end_, capacity_ - end_};
}

frame_buffer::status frame_buffer::next(frame_header& header, std::span<const std::byte>& body) {
  const auto result = judge(header);
  if (result == status::complete) {
    body = {memory_.get() + begin_ + frame_header_bytes, header.body_bytes};
    begin_ += frame_header_bytes + header.body_bytes;
  }
  return result;
}

bool frame_buffer::has_complete() const {
  frame_header header;
  return judge(header) == status::complete;
}

}  // namespace gpuwire::wire
