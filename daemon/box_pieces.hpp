// SPDX-License-Identifier: Apache-2.0
// A box whose bytes lie packed, one row after the other, cut at arbitrary bytes: which boxes a run of those bytes stands for.
// At most five: the rest of a row, the rest of a slice's rows, whole slices, rows of the next slice, the beginning of a row. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpuwire::daemon {

struct box_extent {
  std::uint64_t width = 0, height = 0, depth = 0;  // bytes, rows, slices
};

struct box_piece {
  std::uint64_t x = 0, y = 0, z = 0;
  box_extent size;
  std::uint64_t offset = 0;  // of its first byte in the run
};

// Calls each(piece) until one returns false; then returns false.
template <class Each>
bool for_pieces(const box_extent& box, std::uint64_t begin, std::uint64_t bytes, Each&& each) {
  const std::uint64_t slice = box.width * box.height;
  std::uint64_t done = 0;
  while (done < bytes) {
    const std::uint64_t at = begin + done, left = bytes - done;
    box_piece piece;
    piece.z = at / slice;
    piece.y = at % slice / box.width;
    piece.x = at % box.width;
    piece.offset = done;
    if (piece.x != 0 || left < box.width)
      piece.size = {std::min(left, box.width - piece.x), 1, 1};
    else if (piece.y != 0 || left < slice)
      piece.size = {box.width, std::min(left / box.width, box.height - piece.y), 1};
    else
      piece.size = {box.width, box.height, left / slice};
    if (!each(piece)) return false;
    done += piece.size.width * piece.size.height * piece.size.depth;
  }
  return true;
}

}  // namespace gpuwire::daemon
