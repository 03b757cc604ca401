// SPDX-License-Identifier: Apache-2.0
// Packs values as codec.hpp's encoder does, into memory that grows: for bodies whose length is
// known only at their end. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "wire/codec.hpp"

namespace gpuwire::wire {

class growing_encoder {
 public:
  template <class Scalar>
  requires is_wire_scalar<Scalar>
  void operator()(const Scalar& value) {
    if constexpr (std::is_same_v<Scalar, bool>) {
      bytes_.push_back(value ? std::byte{1} : std::byte{0});
    } else {
      put(&value, sizeof value);
    }
  }
  void operator()(std::string_view text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    put(text.data(), text.size());
  }
  void put(const void* data, std::size_t bytes) {
    if (bytes == 0) return;
    const auto at = bytes_.size();
    bytes_.resize(at + bytes);
    std::memcpy(bytes_.data() + at, data, bytes);
  }
  void pad() { bytes_.resize(padded_to_8(bytes_.size())); }

  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace gpuwire::wire
