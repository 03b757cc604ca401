// SPDX-License-Identifier: Apache-2.0
#include "shim/md2.hpp"

#include <algorithm>
#include <vector>

namespace gpuwire::shim {
namespace {

// RFC 1319: 256 values built from the digits of pi.
constexpr std::array<std::uint8_t, 256> substitution = {
    41,  46,  67,  201, 162, 216, 124, 1,   61,  54,  84,  161, 236, 240, 6,   19,  98,  167, 5,
    243, 192, 199, 115, 140, 152, 147, 43,  217, 188, 76,  130, 202, 30,  155, 87,  60,  253, 212,
    224, 22,  103, 66,  111, 24,  138, 23,  229, 18,  190, 78,  196, 214, 218, 158, 222, 73,  160,
    251, 245, 142, 187, 47,  238, 122, 169, 104, 121, 145, 21,  178, 7,   63,  148, 194, 16,  137,
    11,  34,  95,  33,  128, 127, 93,  154, 90,  144, 50,  39,  53,  62,  204, 231, 191, 247, 151,
    3,   255, 25,  48,  179, 72,  165, 181, 209, 215, 94,  146, 42,  172, 86,  170, 198, 79,  184,
    56,  210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4,   241, 69,  157, 112, 89,  100,
    113, 135, 32,  134, 91,  207, 101, 230, 45,  168, 2,   27,  96,  37,  173, 174, 176, 185, 246,
    28,  70,  97,  105, 52,  64,  126, 15,  85,  71,  163, 35,  221, 81,  175, 58,  195, 92,  249,
    206, 186, 197, 234, 38,  44,  83,  13,  110, 133, 40,  132, 9,   211, 223, 205, 244, 65,  129,
    77,  82,  106, 220, 55,  200, 108, 193, 171, 250, 36,  225, 123, 8,   12,  189, 177, 74,  120,
    136, 149, 139, 227, 99,  232, 109, 233, 203, 213, 254, 59,  0,   29,  57,  242, 239, 183, 14,
    102, 88,  208, 228, 166, 119, 114, 248, 235, 117, 75,  10,  49,  68,  80,  180, 143, 237, 31,
    26,  219, 153, 141, 51,  159, 17,  131, 20};

constexpr std::size_t block_bytes = 16;

class md2_state {
 public:
  void block(const std::uint8_t* data) {
    for (std::size_t i = 0; i < block_bytes; ++i) {
      state_[16 + i] = data[i];
      state_[32 + i] = static_cast<std::uint8_t>(data[i] ^ state_[i]);
    }
    std::uint8_t t = 0;
    for (unsigned round = 0; round < 18; ++round) {
      for (auto& value : state_) t = value = static_cast<std::uint8_t>(value ^ substitution[t]);
      t = static_cast<std::uint8_t>(t + round);
    }
    t = checksum_[15];
    for (std::size_t i = 0; i < block_bytes; ++i) {
      checksum_[i] = static_cast<std::uint8_t>(checksum_[i] ^ substitution[data[i] ^ t]);
      t = checksum_[i];
    }
  }

  md2_digest finish(std::span<const std::uint8_t> rest) {
    std::array<std::uint8_t, block_bytes> last{};
    const auto pad = static_cast<std::uint8_t>(block_bytes - rest.size());
    std::copy(rest.begin(), rest.end(), last.begin());
    std::fill(last.begin() + static_cast<std::ptrdiff_t>(rest.size()), last.end(), pad);
    block(last.data());
    const auto sum = checksum_;
    block(sum.data());
    md2_digest digest;
    std::copy_n(state_.begin(), digest.size(), digest.begin());
    return digest;
  }

 private:
  std::array<std::uint8_t, 48> state_{};
  std::array<std::uint8_t, 16> checksum_{};
};

}  // namespace

md2_digest md2(std::span<const std::uint8_t> data) {
  md2_state state;
  while (data.size() >= block_bytes) {
    state.block(data.data());
    data = data.subspan(block_bytes);
  }
  return state.finish(data);
}

md2_digest hmac_md2(std::span<const std::uint8_t> key, std::span<const std::uint8_t> data) {
  std::array<std::uint8_t, block_bytes> inner_key{}, outer_key{};
  for (std::size_t i = 0; i < block_bytes; ++i) {
    const std::uint8_t k = i < key.size() ? key[i] : std::uint8_t{0};
    inner_key[i] = static_cast<std::uint8_t>(k ^ 0x36);
    outer_key[i] = static_cast<std::uint8_t>(k ^ 0x5c);
  }
  std::vector<std::uint8_t> message(inner_key.begin(), inner_key.end());
  message.insert(message.end(), data.begin(), data.end());
  const auto inner = md2(message);
  message.assign(outer_key.begin(), outer_key.end());
  message.insert(message.end(), inner.begin(), inner.end());
  return md2(message);
}

}  // namespace gpuwire::shim
