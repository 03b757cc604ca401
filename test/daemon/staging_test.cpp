// SPDX-License-Identifier: Apache-2.0
#include "daemon/staging.hpp"

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "test/catch.hpp"

using namespace gpuwire::daemon;

namespace {
constexpr std::size_t kib = 1024;
struct pool_fixture {
  std::vector<std::pair<std::byte*, std::uint32_t>> pinned;
  staging_pool pool{{4 * kib, 64 * kib, 128 * kib},
                    [this](std::byte* data, std::size_t bytes, std::uint32_t context) {
                      CHECK(bytes == 64 * kib);
                      pinned.emplace_back(data, context);
                    }};
};
}  // namespace

TEST_CASE_METHOD(pool_fixture, "blocks are large enough, apart from one another, and bounded") {
  std::set<std::byte*> seen;
  std::vector<staging_block> blocks;
  while (const auto block = pool.try_acquire(10 * kib, 1)) {
    std::memset(block.data, static_cast<int>(blocks.size()), 16 * kib);
    CHECK(seen.insert(block.data).second);
    blocks.push_back(block);
  }
  CHECK(blocks.size() == 8);  // of 16 KiB in 128
  for (std::size_t i = 0; i < blocks.size(); ++i)
    CHECK(blocks[i].data[16 * kib - 1] == static_cast<std::byte>(i));
  CHECK(pool.bytes_allocated() == 128 * kib);
  CHECK(pool.bytes_used() == 128 * kib);
  pool.release(blocks[3]);
  CHECK(pool.try_acquire(1, 1).data == blocks[3].data);
}

TEST_CASE_METHOD(pool_fixture, "more than a slab is never given") {
  CHECK_FALSE(pool.try_acquire(64 * kib + 1, 1));
  CHECK_FALSE(pool.acquire(64 * kib + 1, 1));
  CHECK(pool.try_acquire(64 * kib, 1));
}

TEST_CASE_METHOD(pool_fixture, "a slab is pinned once, and again after its context is gone") {
  const auto a = pool.try_acquire(4 * kib, 1), b = pool.try_acquire(4 * kib, 1);
  CHECK(pinned.size() == 1);
  pool.context_gone(2);
  pool.release(pool.try_acquire(4 * kib, 2));
  CHECK(pinned.size() == 1);
  pool.context_gone(1);
  a.data[0] = b.data[0] = std::byte{1};  // the memory is still there
  pool.release(pool.try_acquire(4 * kib, 2));
  REQUIRE(pinned.size() == 2);
  CHECK(pinned[0].first == pinned[1].first);
  CHECK(pinned[1].second == 2);
}

TEST_CASE_METHOD(pool_fixture, "who waits for a block gets the next one given back") {
  auto first = pool.try_acquire(64 * kib, 1), second = pool.try_acquire(64 * kib, 1);
  REQUIRE(first);
  REQUIRE(second);
  std::atomic<bool> got{false};
  std::thread waiting([&] {
    CHECK(pool.acquire(64 * kib, 1).data == first.data);
    got = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(got);
  pool.release(first);
  waiting.join();
  CHECK(got);
}
