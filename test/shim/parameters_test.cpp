// SPDX-License-Identifier: Apache-2.0
// Argument blocks and the memory of accepted launch configurations.
#include <array>
#include <cstdint>
#include <vector>

#include "shim/launch_cache.hpp"
#include "shim/parameters.hpp"
#include "test/catch.hpp"

using namespace gpuwire::shim;

TEST_CASE("parameters are packed at their offsets and gaps are zero") {
  const std::vector<parameter> layout = {{0, 1}, {8, 8}, {16, 3}, {32, 16}};
  REQUIRE(parameter_block_bytes(layout) == 48);
  std::uint8_t a = 0x11;
  std::uint64_t b = 0x2222222222222222;
  std::array<std::uint8_t, 3> c = {3, 4, 5};
  std::array<std::uint8_t, 16> d;
  d.fill(0x66);
  void* values[] = {&a, &b, c.data(), d.data()};
  std::array<std::byte, 48> block;
  block.fill(std::byte{0xff});
  REQUIRE(pack_parameters(layout, values, block.data()));
  std::array<std::byte, 48> expected{};
  expected[0] = std::byte{0x11};
  for (int i = 8; i < 16; ++i) expected[static_cast<std::size_t>(i)] = std::byte{0x22};
  for (int i = 0; i < 3; ++i) expected[static_cast<std::size_t>(16 + i)] = std::byte(3 + i);
  for (int i = 32; i < 48; ++i) expected[static_cast<std::size_t>(i)] = std::byte{0x66};
  CHECK(block == expected);
}

TEST_CASE("a kernel without parameters needs no array, others need every pointer") {
  CHECK(pack_parameters({}, nullptr, nullptr));
  const std::vector<parameter> layout = {{0, 4}, {4, 4}};
  std::array<std::byte, 8> block;
  int x = 1;
  void* holes[] = {&x, nullptr};
  CHECK_FALSE(pack_parameters(layout, nullptr, block.data()));
  CHECK_FALSE(pack_parameters(layout, holes, block.data()));
}

TEST_CASE("three hundred parameters are packed") {
  std::vector<parameter> layout;
  std::vector<std::uint32_t> numbers(300);
  std::vector<void*> values;
  for (std::uint32_t i = 0; i < 300; ++i) {
    layout.push_back({i * 4, 4});
    numbers[i] = i * 7;
    values.push_back(&numbers[i]);
  }
  std::vector<std::uint32_t> block(300);
  REQUIRE(pack_parameters(layout, values.data(), reinterpret_cast<std::byte*>(block.data())));
  CHECK(block == numbers);
}

TEST_CASE("extra gives its block by pointer and size in either order") {
  std::array<std::byte, 24> data;
  std::size_t bytes = data.size();
  void* key_data = reinterpret_cast<void*>(1);
  void* key_size = reinterpret_cast<void*>(2);
  void* forward[] = {key_data, data.data(), key_size, &bytes, nullptr};
  void* backward[] = {key_size, &bytes, key_data, data.data(), nullptr};
  for (void** extra : {forward, backward}) {
    const auto block = read_extra(extra);
    CHECK(block.valid);
    CHECK(block.data == data.data());
    CHECK(block.bytes == 24);
  }
}

TEST_CASE("extra that is incomplete, unknown, endless or too long is invalid") {
  std::array<std::byte, 8> data;
  std::size_t bytes = data.size(), far = parameter_block_bytes_max + 1;
  void* key_data = reinterpret_cast<void*>(1);
  void* key_size = reinterpret_cast<void*>(2);
  void* no_size[] = {key_data, data.data(), nullptr};
  void* no_data[] = {key_size, &bytes, nullptr};
  void* unknown[] = {reinterpret_cast<void*>(7), data.data(), nullptr};
  void* too_long[] = {key_data, data.data(), key_size, &far, nullptr};
  void* null_size[] = {key_data, data.data(), key_size, nullptr, nullptr};
  std::array<void*, 18> endless;
  for (std::size_t i = 0; i < endless.size(); i += 2)
    endless[i] = key_data, endless[i + 1] = data.data();
  CHECK_FALSE(read_extra(no_size).valid);
  CHECK_FALSE(read_extra(no_data).valid);
  CHECK_FALSE(read_extra(unknown).valid);
  CHECK_FALSE(read_extra(too_long).valid);
  CHECK_FALSE(read_extra(null_size).valid);
  CHECK_FALSE(read_extra(endless.data()).valid);
}

TEST_CASE("a configuration is known after it was accepted and until it is forgotten") {
  launch_cache cache;
  launch_configuration c;
  c.block_x = 256, c.block_y = 1, c.block_z = 1;
  const auto key = configuration_key(c);
  CHECK_FALSE(cache.knows(key));
  cache.accept(key);
  CHECK(cache.knows(key));
  cache.forget();
  CHECK_FALSE(cache.knows(key));
}

TEST_CASE("every part of a configuration but the plain grid makes it another one") {
  launch_configuration base;
  base.block_x = 64, base.block_y = 2, base.block_z = 3, base.shared_bytes = 4, base.context = 5,
  base.parameter_bytes = 6;
  const auto key = configuration_key(base);
  const auto changed = [&](auto change) {
    auto other = base;
    change(other);
    return configuration_key(other) != key;
  };
  CHECK(changed([](auto& c) { c.block_x = 65; }));
  CHECK(changed([](auto& c) { c.block_y = 1; }));
  CHECK(changed([](auto& c) { c.block_z = 1; }));
  CHECK(changed([](auto& c) { c.shared_bytes = 5; }));
  CHECK(changed([](auto& c) { c.context = 6; }));
  CHECK(changed([](auto& c) { c.parameter_bytes = 8; }));
  CHECK_FALSE(changed([](auto& c) { c.grid_x = 9; }));
  const std::array<std::byte, 2> attributes = {std::byte{1}, std::byte{2}};
  CHECK(changed([&](auto& c) { c.attributes = attributes; }));
  auto with = base, larger = base;
  with.attributes = larger.attributes = attributes;
  larger.grid_x = 9;
  CHECK(configuration_key(with) != configuration_key(larger));
}

TEST_CASE("the cache keeps the last configurations when there are more than it holds") {
  launch_cache cache;
  for (std::uint32_t i = 1; i <= 2 * launch_cache::places; ++i) {
    launch_configuration c;
    c.block_x = i;
    cache.accept(configuration_key(c));
  }
  launch_configuration first, last;
  first.block_x = 1;
  last.block_x = 2 * launch_cache::places;
  CHECK_FALSE(cache.knows(configuration_key(first)));
  CHECK(cache.knows(configuration_key(last)));
}
