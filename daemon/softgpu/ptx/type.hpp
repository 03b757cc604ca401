// SPDX-License-Identifier: Apache-2.0
// The scalar types of PTX, as they appear after an opcode or in a declaration.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpuwire::softgpu::ptx {

enum class type : std::uint8_t {
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  b8,
  b16,
  b32,
  b64,
  b128,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f64,
  pred,
};

enum class kind_of_type : std::uint8_t {
  bits,
  unsigned_integer,
  signed_integer,
  floating,
  predicate
};

inline constexpr struct {
  std::string_view name;
  type value;
  std::uint8_t bytes;
  kind_of_type kind;
} type_table[] = {
    {"u8", type::u8, 1, kind_of_type::unsigned_integer},
    {"u16", type::u16, 2, kind_of_type::unsigned_integer},
    {"u32", type::u32, 4, kind_of_type::unsigned_integer},
    {"u64", type::u64, 8, kind_of_type::unsigned_integer},
    {"s8", type::s8, 1, kind_of_type::signed_integer},
    {"s16", type::s16, 2, kind_of_type::signed_integer},
    {"s32", type::s32, 4, kind_of_type::signed_integer},
    {"s64", type::s64, 8, kind_of_type::signed_integer},
    {"b8", type::b8, 1, kind_of_type::bits},
    {"b16", type::b16, 2, kind_of_type::bits},
    {"b32", type::b32, 4, kind_of_type::bits},
    {"b64", type::b64, 8, kind_of_type::bits},
    {"b128", type::b128, 16, kind_of_type::bits},
    {"f16", type::f16, 2, kind_of_type::floating},
    {"f16x2", type::f16x2, 4, kind_of_type::floating},
    {"bf16", type::bf16, 2, kind_of_type::floating},
    {"bf16x2", type::bf16x2, 4, kind_of_type::floating},
    {"tf32", type::tf32, 4, kind_of_type::floating},
    {"f32", type::f32, 4, kind_of_type::floating},
    {"f64", type::f64, 8, kind_of_type::floating},
    {"pred", type::pred, 4, kind_of_type::predicate},
};

constexpr std::uint32_t bytes_of(type t) {
  return type_table[static_cast<std::size_t>(t)].bytes;
}
constexpr kind_of_type kind_of(type t) {
  return type_table[static_cast<std::size_t>(t)].kind;
}
constexpr std::string_view name_of(type t) {
  return type_table[static_cast<std::size_t>(t)].name;
}
constexpr bool is_signed(type t) {
  return kind_of(t) == kind_of_type::signed_integer;
}
constexpr bool is_floating(type t) {
  return kind_of(t) == kind_of_type::floating;
}

constexpr std::optional<type> parse_type(std::string_view name) {
  for (const auto& entry : type_table)
    if (entry.name == name) return entry.value;
  return std::nullopt;
}

// A register lies in lanes of 4 or 8 bytes; a predicate is one bit a lane; 128 bits are two
// registers.
constexpr std::uint32_t lane_bytes(type t) {
  return bytes_of(t) == 8 ? 8 : 4;
}

}  // namespace gpuwire::softgpu::ptx
