// SPDX-License-Identifier: Apache-2.0
#include "wire/byte_delta.hpp"

#include <cstring>
#include <random>

#include "test/catch.hpp"

using namespace gpuwire::wire;

namespace {

// Memory at a chosen distance from a multiple of 64, with the shadow that belongs to it.
struct side {
  side(std::size_t skew, std::size_t size) : storage(size + 128), bytes(size) {
    void* begin = storage.data();
    std::size_t room = storage.size();
    memory = static_cast<std::byte*>(std::align(64, size + skew, begin, room)) + skew;
    shadow = shadow_memory(reinterpret_cast<std::uint64_t>(memory), size);
  }
  std::vector<std::byte> changes(std::size_t at_most = 1u << 20) {
    std::vector<std::byte> out;
    for (std::size_t at = 0; at < bytes;) {
      std::vector<std::byte> part;
      at = encode_delta(memory, shadow.data(), at, bytes, at_most, part);
      REQUIRE(part.size() <= at_most);
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }
  bool take(const std::vector<std::byte>& delta) {
    return apply_delta(delta, memory, shadow.data(), bytes);
  }
  std::vector<std::byte> storage;
  std::size_t bytes;
  std::byte* memory = nullptr;
  shadow_memory shadow;
};

}  // namespace

TEST_CASE("equal memory has an empty delta") {
  side s(0, 10000);
  CHECK(s.changes().empty());
  s.memory[5000] = std::byte{7};
  CHECK(s.changes().size() == 13);
  CHECK(s.changes().empty());
}

TEST_CASE("changes of both sides meet, wherever the memory begins and ends") {
  std::mt19937 random(7);
  for (const std::size_t skew : {0u, 1u, 8u, 60u, 63u}) {
    for (const std::size_t size : {1u, 7u, 8u, 65u, 4096u, 9001u}) {
      side here(skew, size), there(skew, size);
      std::vector<std::byte> wanted(size);
      for (int round = 0; round < 20; ++round) {
        // Even places belong to one side, odd ones to the other.
        for (int i = 0; i < 40; ++i) {
          const std::size_t at = random() % size;
          const auto value = static_cast<std::byte>(random());
          (at % 2 == 0 ? here : there).memory[at] = value;
          wanted[at] = value;
        }
        const auto to_there = here.changes(100), to_here = there.changes(100);
        REQUIRE(there.take(to_there));
        REQUIRE(here.take(to_here));
        REQUIRE(std::memcmp(here.memory, wanted.data(), size) == 0);
        REQUIRE(std::memcmp(there.memory, wanted.data(), size) == 0);
        REQUIRE(here.changes().empty());
        REQUIRE(there.changes().empty());
      }
    }
  }
}

TEST_CASE("what did not change on the sending side is not overwritten on the other") {
  side here(0, 4096), there(0, 4096);
  here.memory[101] = std::byte{1};
  std::memset(there.memory, 9, 4096);
  REQUIRE(there.take(here.changes()));
  CHECK(there.memory[100] == std::byte{9});
  CHECK(there.memory[101] == std::byte{1});
  CHECK(there.memory[102] == std::byte{9});
}

TEST_CASE("deltas that are cut short or leave the memory are refused") {
  side here(0, 200), there(0, 200), small(0, 190);
  for (std::size_t i = 0; i < 200; i += 3) here.memory[i] = std::byte{5};
  const auto delta = here.changes();
  for (std::size_t cut = 1; cut < delta.size(); ++cut) {
    std::vector<std::byte> part(delta.begin(), delta.begin() + static_cast<std::ptrdiff_t>(cut));
    side fresh(0, 200);
    if (fresh.take(part)) CHECK(fresh.changes().empty());  // a cut between two records
  }
  std::vector<std::byte> part(delta.begin(), delta.end() - 1);
  CHECK_FALSE(there.take(part));
  CHECK_FALSE(small.take(delta));
  std::vector<std::byte> far(12, std::byte{0xff});
  far.resize(12 + 64);
  CHECK_FALSE(there.take(far));
  CHECK_FALSE(there.take(std::vector<std::byte>(12)));
}
