// SPDX-License-Identifier: Apache-2.0
// Host memory through all paths of the daemon: inline, staged, bulk; every size around the limits
// where one becomes another.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "test/catch.hpp"
#include "test/daemon/server_process.hpp"
#include "wire/limits.hpp"

using namespace daemon_test;

namespace {

std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> data(bytes);
  for (auto& b : data) {
    seed = seed * 1664525u + 1013904223u;
    b = static_cast<std::byte>(seed >> 24);
  }
  return data;
}

std::int32_t to_device(test_client& c, std::uint64_t address, const std::vector<std::byte>& data) {
  msg::copy_to_device::request q;
  q.destination = address;
  q.synchronous = true;
  q.bytes = data.size();
  if (data.size() > wire::limits::inline_payload_bytes_max)
    return c.call<msg::copy_to_device>(q, {data, {}}).result;
  q.data = {data.data(), data.size()};
  return c.post<msg::copy_to_device>(q) == wire::error::ok ? 0 : -1;
}

std::int32_t from_device(test_client& c, std::uint64_t address, std::vector<std::byte>& data) {
  msg::copy_from_device::request q;
  q.source = address;
  q.synchronous = true;
  q.bytes = data.size();
  if (data.size() > wire::limits::reply_inline_bytes_max)
    return c.call<msg::copy_from_device>(q, {{}, data}).result;
  const auto a = c.call<msg::copy_from_device>(q);
  if (a.result == 0 && a.body.data.size == data.size())
    std::memcpy(data.data(), a.body.data.data, data.size());
  return a.result;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("what went in comes out, whatever the size") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  const auto address = c.allocate(64u << 20);
  for (const std::size_t bytes : {1u, 7u, 4096u, 65535u, 65536u, 65537u, (1u << 20) - 1, 1u << 20,
                                  (1u << 20) + 1, 2u << 20, (2u << 20) + 1, (32u << 20) + 12345}) {
    CAPTURE(bytes);
    const auto data = pattern(bytes, static_cast<std::uint32_t>(bytes));
    std::vector<std::byte> back(bytes);
    REQUIRE(to_device(c, address, data) == 0);
    REQUIRE(from_device(c, address, back) == 0);
    CHECK((back == data));
  }
}

TEST_CASE("copies to nowhere fail with the driver's code and leave the session in step") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  const auto address = c.allocate(8u << 20);
  auto data = pattern(5u << 20, 1);
  CHECK(to_device(c, 0x10, data) != 0);
  CHECK(from_device(c, 0x10, data) != 0);
  std::vector<std::byte> small(100);
  CHECK(from_device(c, 0x10, small) != 0);
  msg::copy_to_device::request q;
  q.destination = address;
  q.stream = wire::make_handle(0, 3, 1, 9);  // never made
  q.bytes = data.size();
  CHECK(c.call<msg::copy_to_device>(q, {data, {}}).result == 400);
  REQUIRE(to_device(c, address, data) == 0);
  std::vector<std::byte> back(data.size());
  REQUIRE(from_device(c, address, back) == 0);
  CHECK((back == data));
}

TEST_CASE("lanes copy at the same time without disturbing one another") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  constexpr int lanes = 4;
  std::vector<std::uint64_t> addresses;
  for (int i = 0; i < lanes; ++i) addresses.push_back(c.allocate(8u << 20));
  std::vector<std::thread> threads;
  std::array<bool, lanes> good{};
  for (int i = 0; i < lanes; ++i) {
    threads.emplace_back([&, i] {
      const auto lane = static_cast<std::uint32_t>(i + 1);
      bool ok = true;
      for (std::uint32_t round = 0; round < 10; ++round) {
        const auto data = pattern((round % 2 == 0 ? 5u << 20 : 30000u) + round, lane * 100 + round);
        std::vector<std::byte> back(data.size());
        msg::copy_to_device::request in;
        in.destination = addresses[static_cast<std::size_t>(i)];
        in.bytes = data.size();
        wire::reply r;
        const bool inline_in = data.size() <= wire::limits::inline_payload_bytes_max;
        if (inline_in) in.data = {data.data(), data.size()};
        wire::transfer send;
        if (!inline_in) send.send = data;
        ok &= c.connection().call({msg::copy_to_device::call_id, lane, 1}, in, r, send) ==
                  wire::error::ok &&
              r.result == 0;
        msg::copy_from_device::request out;
        out.source = in.destination;
        out.bytes = data.size();
        const bool inline_out = data.size() <= wire::limits::reply_inline_bytes_max;
        wire::transfer receive;
        if (!inline_out) receive.receive = back;
        ok &= c.connection().call({msg::copy_from_device::call_id, lane, 1}, out, r, receive) ==
                  wire::error::ok &&
              r.result == 0;
        if (inline_out) {
          msg::copy_from_device::reply body;
          auto d = r.body();
          ok &= wire::decode_from(d, body) && body.data.size == back.size();
          if (ok) std::memcpy(back.data(), body.data.data, back.size());
        }
        ok &= back == data;
      }
      good[static_cast<std::size_t>(i)] = ok;
    });
  }
  for (auto& t : threads) t.join();
  for (const bool g : good) CHECK(g);
}

// Not a check: the figure depends on what else the machine does. Run by name.
TEST_CASE("throughput of 256 MB", "[.throughput]") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  auto data = pattern(256u << 20, 1);
  const auto address = c.allocate(data.size());
  for (int i = 0; i < 5; ++i) {
    auto begin = std::chrono::steady_clock::now();
    REQUIRE(to_device(c, address, data) == 0);
    REQUIRE(c.call<msg::sync>({1, 0}).result == 0);
    const auto in = seconds_since(begin);
    begin = std::chrono::steady_clock::now();
    REQUIRE(from_device(c, address, data) == 0);
    const auto out = seconds_since(begin);
    std::printf("to device %.2f GB/s, from device %.2f GB/s\n", 0.268435456 / in,
                0.268435456 / out);
  }
}
