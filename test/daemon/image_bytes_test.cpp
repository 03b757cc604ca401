// SPDX-License-Identifier: Apache-2.0
#include "daemon/image_bytes.hpp"

#include <cstring>

#include "test/catch.hpp"

using namespace gpuwire::daemon;

namespace {
struct wrapper {
  std::uint32_t magic, version;
  const std::byte* data;
  const void* const* fatbins;
};
}  // namespace

TEST_CASE("a wrapper points to its parts, and the list of prelinked ones ends in null") {
  const auto image = image_bytes::make(32);
  std::byte bytes[32];
  for (int i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  image->fill(bytes);
  const std::uint64_t parts[] = {5, 8, 16};
  REQUIRE(image->wrap(2, parts));
  wrapper w;
  std::memcpy(&w, image->pointer(), sizeof w);
  CHECK(w.magic == 0x466243B1);
  CHECK(w.version == 2);
  CHECK(w.data[3] == std::byte{3});
  CHECK(static_cast<const std::byte*>(w.fatbins[0])[0] == std::byte{8});
  CHECK(static_cast<const std::byte*>(w.fatbins[1])[0] == std::byte{16});
  CHECK(w.fatbins[2] == nullptr);
}

TEST_CASE("parts that do not add up are refused") {
  const auto refused = [](std::vector<std::uint64_t> parts) {
    return !image_bytes::make(32)->wrap(2, parts);
  };
  CHECK(refused({}));
  CHECK(refused({24}));
  CHECK(refused({33}));
  CHECK(refused({16, 17}));
  CHECK(refused({~std::uint64_t{0}}));
  CHECK(refused({16, ~std::uint64_t{0} - 7}));
  CHECK(refused({32, 1}));
  CHECK_FALSE(refused({32}));
  CHECK_FALSE(refused({32, 0}));
}

TEST_CASE("a bare image is given as it is, with zeros behind it") {
  const auto image = image_bytes::make(4);
  const char text[4] = {'.', 'v', 'e', 'r'};
  image->fill(std::as_bytes(std::span(text)));
  CHECK(std::string_view(static_cast<const char*>(image->pointer())) == ".ver");
}

TEST_CASE("bulk data is placed within the image only") {
  const auto image = image_bytes::make(1000);
  CHECK(image->place(0, 1000).size() == 1000);
  CHECK(image->place(0, 1001).empty());
  CHECK(image->place(999, 2).empty());
  CHECK(image->place(~std::uint64_t{0}, 2).empty());
  image->arrived(0, 600);
  image->arrived(600, 400);
  CHECK(image->wait());
  const auto other = image_bytes::make(10);
  other->lost();
  CHECK_FALSE(other->wait());
}
