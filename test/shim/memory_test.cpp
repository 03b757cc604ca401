// SPDX-License-Identifier: Apache-2.0
// The map of memory ranges and the reservations that keep device addresses free.
#include <sys/mman.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "shim/interval_map.hpp"
#include "shim/reservations.hpp"
#include "test/catch.hpp"

using namespace gpuwire::shim;

TEST_CASE("a range is found by every address inside it and by none outside") {
  interval_map<int> map;
  REQUIRE(map.insert(1000, 100, 7));
  CHECK_FALSE(map.find(999));
  CHECK(map.find(1000)->value == 7);
  CHECK(map.find(1099)->base == 1000);
  CHECK_FALSE(map.find(1100));
  CHECK(map.covers(1000, 100));
  CHECK(map.covers(1099, 1));
  CHECK_FALSE(map.covers(1050, 51));
  CHECK_FALSE(map.covers(1050, ~std::uint64_t{0}));
}

TEST_CASE("ranges that overlap, are empty or wrap around are refused") {
  interval_map<int> map;
  REQUIRE(map.insert(1000, 100, 1));
  CHECK_FALSE(map.insert(1000, 100, 2));
  CHECK_FALSE(map.insert(950, 51, 2));
  CHECK_FALSE(map.insert(1099, 1, 2));
  CHECK_FALSE(map.insert(900, 1000, 2));
  CHECK_FALSE(map.insert(2000, 0, 2));
  CHECK_FALSE(map.insert(~std::uint64_t{0} - 1, 100, 2));
  CHECK(map.insert(900, 100, 2));
  CHECK(map.insert(1100, 100, 3));
}

TEST_CASE("only the start of a range takes it out") {
  interval_map<int> map;
  REQUIRE(map.insert(1000, 100, 1));
  CHECK_FALSE(map.erase(1001));
  CHECK(map.erase(1000)->bytes == 100);
  CHECK_FALSE(map.erase(1000));
  CHECK(map.insert(1000, 100, 2));
}

TEST_CASE("chosen ranges are taken out together") {
  interval_map<int> map;
  for (int i = 0; i < 10; ++i) REQUIRE(map.insert(static_cast<std::uint64_t>(i + 1) * 100, 50, i));
  int taken = 0;
  map.erase_if([](const auto& range) { return range.value % 2 == 0; },
               [&](const auto&) { ++taken; });
  CHECK(taken == 5);
  CHECK_FALSE(map.find(100));
  CHECK(map.find(200));
}

TEST_CASE("readers and writers of the map do not disturb one another") {
  interval_map<int> map;
  REQUIRE(map.insert(1u << 20, 4096, 1));
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&map, t] {
      for (int i = 0; i < 2000; ++i) {
        const auto base =
            (static_cast<std::uint64_t>(t) * 10'000 + static_cast<std::uint64_t>(i)) * 8192 +
            (1u << 24);
        map.insert(base, 4096, i);
        map.erase(base);
      }
    });
  threads.emplace_back([&map] {
    for (int i = 0; i < 20'000; ++i)
      if (!map.covers(1u << 20, 4096)) throw 1;
  });
  for (auto& t : threads) t.join();
  CHECK(map.find(1u << 20));
}

namespace {

// Two free granules, found by letting the system place them and giving them back.
std::uint64_t free_granules() {
  const std::size_t bytes = 4 * reservations::granule_bytes;
  void* place =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(place != MAP_FAILED);
  ::munmap(place, bytes);
  const auto address = reinterpret_cast<std::uint64_t>(place);
  return (address + reservations::granule_bytes - 1) / reservations::granule_bytes *
         reservations::granule_bytes;
}

bool is_mapped(std::uint64_t address) {
  unsigned char resident = 0;
  return ::mincore(reinterpret_cast<void*>(address), 4096, &resident) == 0;
}

}  // namespace

TEST_CASE("allocations of one granule share its reservation") {
  reservations held;
  const auto base = free_granules();
  REQUIRE(held.take(base, 512));
  REQUIRE(held.take(base + 512, 512));
  CHECK(is_mapped(base));
  held.give_back(base, 512);
  CHECK(is_mapped(base));
  held.give_back(base + 512, 512);
  CHECK_FALSE(is_mapped(base));
}

TEST_CASE("a range in use is refused and nothing of it stays reserved") {
  reservations held;
  const auto base = free_granules();
  void* other = ::mmap(reinterpret_cast<void*>(base + reservations::granule_bytes), 4096, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  REQUIRE(other != MAP_FAILED);
  CHECK_FALSE(held.take(base, 2 * reservations::granule_bytes));
  CHECK_FALSE(is_mapped(base));
  ::munmap(other, 4096);
  REQUIRE(held.take(base, 2 * reservations::granule_bytes));
  held.give_back(base, 2 * reservations::granule_bytes);
  CHECK_FALSE(is_mapped(base));
}

TEST_CASE("empty and impossible ranges are refused") {
  reservations held;
  CHECK_FALSE(held.take(1u << 30, 0));
  CHECK_FALSE(held.take(~std::uint64_t{0} - 10, 100));
}
