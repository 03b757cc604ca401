// SPDX-License-Identifier: Apache-2.0
// The parts that decide without I/O: who sends, how a byte stream is cut into frames, memory that
// wraps around.
#include <cerrno>
#include <cstring>
#include <random>

#include "test/catch.hpp"
#include "wire/flush_policy.hpp"
#include "wire/frame_buffer.hpp"
#include "wire/limits.hpp"
#include "wire/magic_ring.hpp"
#include "wire/parking.hpp"

using namespace gpuwire::wire;
using namespace std::chrono_literals;
using append_action = flush_policy::append_action;
using writer_action = flush_policy::writer_action;

TEST_CASE("a lone record is sent by its caller, the second one wakes the writer", "[flush]") {
  const flush_policy policy(16);
  const auto t = flush_policy::time() + 1h;
  CHECK(policy.appended(false, false, t, t - 1s) == append_action::send);
  CHECK(policy.appended(false, false, t + 10us, t) == append_action::wake_writer);
  CHECK(policy.appended(false, true, t + 20us, t + 12us) == append_action::nothing);
  CHECK(policy.appended(false, false, t + 50us, t) == append_action::send);
}

TEST_CASE("a called command is always sent by its caller", "[flush]") {
  const flush_policy policy(16);
  const auto t = flush_policy::time() + 1h;
  for (const bool awake : {false, true}) {
    CHECK(policy.appended(true, awake, t, t) == append_action::send);
    CHECK(policy.appended(true, awake, t, t - 1s) == append_action::send);
  }
}

TEST_CASE("the writer parks after 50 us of emptiness, and naps where cores are few", "[flush]") {
  const auto t = flush_policy::time() + 1h;
  const flush_policy many(16), few(2);
  CHECK(many.found_empty(t + 49us, t) == writer_action::look_again);
  CHECK(few.found_empty(t + 49us, t) == writer_action::nap);
  CHECK(many.found_empty(t + 50us, t) == writer_action::park);
  CHECK(few.found_empty(t + 50us, t) == writer_action::park);
}

TEST_CASE("the writer gives a record company for 3 us at most", "[flush]") {
  const flush_policy many(16), few(2);
  CHECK_FALSE(many.ripe(2us, 64));
  CHECK(many.ripe(3us, 64));
  CHECK(many.ripe(0us, 16u << 10));
  CHECK(few.ripe(0us, 64));
}

TEST_CASE("spinning in vain is given up for a while where cores are few", "[spin]") {
  spin_budget few(2, 50us), many(16, 50us);
  for (int i = 0; i < 3; ++i) {
    CHECK(few.next() == 50us);
    few.spun(true);
    CHECK(many.next() == 50us);
    many.spun(true);
  }
  for (int i = 0; i < 32; ++i) CHECK(few.next() == 0us);
  CHECK(few.next() == 50us);
  few.spun(true);
  few.spun(true);
  few.spun(false);
  few.spun(true);
  CHECK(few.next() == 50us);
  CHECK(many.next() == 50us);
}

TEST_CASE("a record over the end of the ring is contiguous", "[ring]") {
  magic_ring ring;
  REQUIRE(ring.map(3000) == EINVAL);
  REQUIRE(ring.map(1u << 16) == 0);
  const std::uint64_t position = 5 * ring.capacity() - 10;
  std::memset(ring.at(position), 'a', 10);
  std::memset(ring.at(position) + 10, 'b', 10);
  CHECK(std::memcmp(ring.at(5 * ring.capacity()), "bbbbbbbbbb", 10) == 0);
  CHECK(std::memcmp(ring.at(position), "aaaaaaaaaabbbbbbbbbb", 20) == 0);
}

namespace {

std::vector<std::byte> frame(std::uint64_t sequence, std::uint32_t body_bytes) {
  frame_header h;
  h.body_bytes = body_bytes;
  h.kind = frame_kind::command_posted;
  h.sequence = sequence;
  std::vector<std::byte> out(frame_header_bytes + body_bytes);
  std::memcpy(out.data(), &h, sizeof h);
  for (std::uint32_t i = 0; i < body_bytes; ++i)
    out[frame_header_bytes + i] = static_cast<std::byte>(sequence + i);
  return out;
}

}  // namespace

TEST_CASE("frames come out whole whatever the pieces they arrive in", "[frames]") {
  std::mt19937 random(7);
  std::vector<std::byte> stream;
  std::vector<std::uint32_t> sizes;
  for (std::uint64_t i = 1; i <= 400; ++i) {
    sizes.push_back(random() % 50 == 0 ? 8 * (random() % 12000) : 8 * (random() % 40));
    const auto f = frame(i, sizes.back());
    stream.insert(stream.end(), f.begin(), f.end());
  }
  frame_buffer buffer(16u << 10, 1u << 20);  // some frames are larger than the buffer
  std::size_t at = 0, got = 0;
  frame_header h;
  std::span<const std::byte> body;
  while (got < sizes.size()) {
    while (buffer.next(h, body) == frame_buffer::status::complete) {
      REQUIRE(h.sequence == got + 1);
      REQUIRE(body.size() == sizes[got]);
      REQUIRE(reinterpret_cast<std::uintptr_t>(body.data()) % 8 == 0);
      bool same = true;
      for (std::size_t i = 0; i < body.size(); ++i)
        same = same && body[i] == static_cast<std::byte>(h.sequence + i);
      REQUIRE(same);
      ++got;
    }
    const auto space = buffer.space();
    REQUIRE_FALSE(space.empty());
    const auto n = std::min({space.size(), stream.size() - at, std::size_t{1} + random() % 9000});
    if (n > 0) std::memcpy(space.data(), stream.data() + at, n);
    at += n;
    buffer.filled(n);
  }
  CHECK(at == stream.size());
}

TEST_CASE("a frame is judged by its header alone", "[frames]") {
  const auto verdict = [](auto change) {
    frame_header h;
    h.kind = frame_kind::reply;
    h.body_bytes = 64;
    change(h);
    frame_buffer buffer(8192, 1024);
    std::memcpy(buffer.space().data(), &h, sizeof h);
    buffer.filled(sizeof h);
    std::span<const std::byte> body;
    return buffer.next(h, body);
  };
  using status = frame_buffer::status;
  CHECK(verdict([](frame_header&) {}) == status::incomplete);
  CHECK(verdict([](frame_header& h) { h.body_bytes = 0; }) == status::complete);
  CHECK(verdict([](frame_header& h) { h.body_bytes = 1032; }) == status::too_large);
  CHECK(verdict([](frame_header& h) { h.body_bytes = 0xfffffff8; }) == status::too_large);
  CHECK(verdict([](frame_header& h) { h.body_bytes = 63; }) == status::malformed);
  CHECK(verdict([](frame_header& h) { h.kind = frame_kind{0}; }) == status::malformed);
  CHECK(verdict([](frame_header& h) { h.kind = frame_kind{10}; }) == status::malformed);
  CHECK(verdict([](frame_header& h) { h.flags = 2; }) == status::malformed);
}
