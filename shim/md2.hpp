// SPDX-License-Identifier: Apache-2.0
// MD2 (RFC 1319) and HMAC (RFC 2104) over it. The CUDA runtime checks the driver's integrity answer
// with this digest and OpenSSL 3 no longer has it. Pure functions, nothing allocated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuwire::shim {

using md2_digest = std::array<std::uint8_t, 16>;

md2_digest md2(std::span<const std::uint8_t> data);

// `key` is at most one block (16 bytes), shorter ones are padded with zeros; the only key in use
// has exactly 16.
md2_digest hmac_md2(std::span<const std::uint8_t> key, std::span<const std::uint8_t> data);

}  // namespace gpuwire::shim
