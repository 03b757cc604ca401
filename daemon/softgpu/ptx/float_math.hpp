// SPDX-License-Identifier: Apache-2.0
// Floating point as the GPU has it: canonical NaNs in single precision, flush to zero, saturation,
// directed rounding, and the 16-bit formats, which the host lacks.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "builder.hpp"

namespace gpuwire::softgpu::ptx {

// The modifiers of one instruction, packed into instruction::sub.
struct float_mode {
  static constexpr std::uint32_t ftz = 1, saturate = 2, relu = 4, nan = 8, xor_sign = 16, abs = 32;
  static constexpr std::uint32_t rounding_shift = 8;
};
constexpr std::uint32_t pack_rounding(rounding r) {
  return static_cast<std::uint32_t>(r) << float_mode::rounding_shift;
}
constexpr rounding unpack_rounding(std::uint32_t mode) {
  return static_cast<rounding>(mode >> float_mode::rounding_shift & 7);
}

inline constexpr std::uint32_t canonical_nan_32 = 0x7FFF'FFFF;

inline float canonical(float v) {
  return v == v ? v : std::bit_cast<float>(canonical_nan_32);
}
inline double canonical(double v) {
  return v;
}

// What an operation that passes a NaN on makes of it: single precision has one NaN, double keeps
// sign and payload.
inline float quiet(float) {
  return std::bit_cast<float>(canonical_nan_32);
}
inline double quiet(double v) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(v) | 0x0008'0000'0000'0000);
}

inline float flush(float v) {
  return std::fabs(v) < std::numeric_limits<float>::min() ? std::copysign(0.0f, v) : v;
}
inline double flush(double v) {
  return v;
}

template <class T>
T saturate(T v) {
  return v > T{0} ? (v < T{1} ? v : T{1}) : T{0};  // NaN becomes zero
}

// Results of +, -, *, /, fma and sqrt under a rounding mode of the host's unit; rounding.cpp.
enum class float_op : std::uint8_t { add, subtract, multiply, divide, fused, square_root };
float directed(float_op op, float a, float b, float c, rounding r);
double directed(float_op op, double a, double b, double c, rounding r);
float round_to_single(double v, rounding r);
float integer_to_single(std::int64_t v, rounding r);
float integer_to_single(std::uint64_t v, rounding r);
double integer_to_double(std::int64_t v, rounding r);
double integer_to_double(std::uint64_t v, rounding r);

// f16: 5 exponent bits, 10 of mantissa; bf16: 8 and 7.
std::uint16_t to_half(double v, rounding r = rounding::nearest);
std::uint16_t to_bfloat(double v, rounding r = rounding::nearest);
float from_half(std::uint16_t bits);
inline float from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// a * b + c for 16-bit operands, rounded once: the sum in double, made odd when inexact, rounds
// correctly to 16 bits.
double fused_odd(double a, double b, double c);

// Integral value of v under a rounding mode; none means towards zero.
inline double round_integral(double v, rounding r) {
  switch (r) {
    case rounding::nearest:
      return std::nearbyint(v);
    case rounding::down:
      return std::floor(v);
    case rounding::up:
      return std::ceil(v);
    default:
      return std::trunc(v);
  }
}

}  // namespace gpuwire::softgpu::ptx
