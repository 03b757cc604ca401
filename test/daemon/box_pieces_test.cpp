// SPDX-License-Identifier: Apache-2.0
#include "daemon/box_pieces.hpp"

#include <vector>
#include "test/catch.hpp"

using namespace gpuwire::daemon;

TEST_CASE("the pieces of a run of packed bytes stand for exactly those bytes, each once and in order") {
  for (const box_extent box : {box_extent{1, 1, 1}, {7, 5, 3}, {16, 1, 4}, {3, 9, 1}}) {
    const auto total = box.width * box.height * box.depth;
    for (std::uint64_t begin = 0; begin < total; ++begin) {
      for (std::uint64_t bytes = 1; bytes <= total - begin; ++bytes) {
        std::uint64_t next = begin;
        int pieces = 0;
        REQUIRE(for_pieces(box, begin, bytes, [&](const box_piece& p) {
          REQUIRE(p.offset == next - begin);
          REQUIRE(p.x + p.size.width <= box.width);
          REQUIRE(p.y + p.size.height <= box.height);
          REQUIRE(p.z + p.size.depth <= box.depth);
          for (std::uint64_t k = 0; k < p.size.depth; ++k)
            for (std::uint64_t j = 0; j < p.size.height; ++j)
              for (std::uint64_t i = 0; i < p.size.width; ++i)
                REQUIRE(((p.z + k) * box.height + p.y + j) * box.width + p.x + i == next++);
          ++pieces;
          return true;
        }));
        REQUIRE(next == begin + bytes);
        REQUIRE(pieces <= 5);
      }
    }
  }
}

TEST_CASE("pieces end where the caller says so") {
  int seen = 0;
  REQUIRE_FALSE(for_pieces({4, 4, 4}, 1, 40, [&](const box_piece&) { return ++seen < 2; }));
  REQUIRE(seen == 2);
}
