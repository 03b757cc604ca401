// SPDX-License-Identifier: Apache-2.0
// Directed rounding through the host's floating-point environment. This file is compiled with
// -frounding-math; the operations sit in functions that are not inlined, so nothing moves across
// the change of mode.
#include <cfenv>

#include "float_math.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

class rounding_scope {
 public:
  explicit rounding_scope(rounding r) {
    switch (r) {
      case rounding::zero:
        std::fesetround(FE_TOWARDZERO);
        break;
      case rounding::down:
        std::fesetround(FE_DOWNWARD);
        break;
      case rounding::up:
        std::fesetround(FE_UPWARD);
        break;
      default:
        break;
    }
  }
  ~rounding_scope() { std::fesetround(FE_TONEAREST); }
  rounding_scope(const rounding_scope&) = delete;
  rounding_scope& operator=(const rounding_scope&) = delete;
};

template <class T>
[[gnu::noinline]] T compute(float_op op, volatile T& a, volatile T& b, volatile T& c) {
  volatile T result = 0;
  switch (op) {
    case float_op::add:
      result = a + b;
      break;
    case float_op::subtract:
      result = a - b;
      break;
    case float_op::multiply:
      result = a * b;
      break;
    case float_op::divide:
      result = a / b;
      break;
    case float_op::fused:
      result = std::fma(T{a}, T{b}, T{c});
      break;
    case float_op::square_root:
      result = std::sqrt(T{a});
      break;
  }
  return result;
}

template <class T>
T compute_directed(float_op op, T a, T b, T c, rounding r) {
  volatile T va = a, vb = b, vc = c;
  const rounding_scope scope(r);
  return compute<T>(op, va, vb, vc);
}

template <class To, class From>
[[gnu::noinline]] To convert(volatile From& from) {
  volatile To result = static_cast<To>(From{from});
  return result;
}

template <class To, class From>
To convert_directed(From from, rounding r) {
  volatile From value = from;
  const rounding_scope scope(r);
  return convert<To, From>(value);
}

// The bits of v in a format of `mantissa` stored bits and exponents from `exponent_min` (of the
// smallest normal number) to `exponent_max`. Overflow goes to infinity or the largest number as the
// mode says.
std::uint16_t narrow(double v, int mantissa, int exponent_min, int exponent_max, rounding r) {
  const bool negative = std::signbit(v);
  const auto sign = static_cast<std::uint16_t>(negative ? 0x8000 : 0);
  const int exponent_bits = 15 - mantissa;
  const auto infinity = static_cast<std::uint16_t>(((1u << exponent_bits) - 1) << mantissa);
  if (std::isnan(v)) return 0x7FFF;
  const double magnitude = std::fabs(v);
  if (std::isinf(v)) return sign | infinity;
  if (magnitude == 0) return sign;
  int exponent = std::ilogb(magnitude);
  if (exponent < exponent_min) exponent = exponent_min;
  // In units of the last place the value is below 2^(mantissa + 1), so scaling is exact.
  const double scaled = std::ldexp(magnitude, mantissa - exponent);
  double units = std::floor(scaled);
  const double rest = scaled - units;
  const bool away = r == rounding::up ? !negative : r == rounding::down ? negative : false;
  if (r == rounding::nearest || r == rounding::none) {
    if (rest > 0.5 || (rest == 0.5 && std::fmod(units, 2.0) != 0)) units += 1;
  } else if (away && rest > 0) {
    units += 1;
  }
  const double whole = std::ldexp(1.0, mantissa);
  if (units >= 2 * whole) {
    units /= 2;
    ++exponent;
  }
  if (exponent > exponent_max) {
    const bool to_infinity = r == rounding::nearest || r == rounding::none || away;
    return sign | (to_infinity ? infinity : static_cast<std::uint16_t>(infinity - 1));
  }
  if (units < whole) return sign | static_cast<std::uint16_t>(units);  // subnormal
  const auto biased = static_cast<std::uint32_t>(exponent - exponent_min + 1);
  return sign | static_cast<std::uint16_t>((biased << mantissa) +
                                           static_cast<std::uint32_t>(units - whole));
}

}  // namespace

float directed(float_op op, float a, float b, float c, rounding r) {
  return compute_directed(op, a, b, c, r);
}
double directed(float_op op, double a, double b, double c, rounding r) {
  return compute_directed(op, a, b, c, r);
}
float round_to_single(double v, rounding r) {
  return convert_directed<float>(v, r);
}
float integer_to_single(std::int64_t v, rounding r) {
  return convert_directed<float>(v, r);
}
float integer_to_single(std::uint64_t v, rounding r) {
  return convert_directed<float>(v, r);
}
double integer_to_double(std::int64_t v, rounding r) {
  return convert_directed<double>(v, r);
}
double integer_to_double(std::uint64_t v, rounding r) {
  return convert_directed<double>(v, r);
}

std::uint16_t to_half(double v, rounding r) {
  return narrow(v, 10, -14, 15, r);
}
std::uint16_t to_bfloat(double v, rounding r) {
  return narrow(v, 7, -126, 127, r);
}

float from_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = bits >> 10 & 31, mantissa = bits & 0x3FF;
  if (exponent == 31)
    return std::bit_cast<float>(mantissa != 0 ? canonical_nan_32 : sign | 0x7F80'0000);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float small = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

double fused_odd(double a, double b, double c) {
  const double product = a * b;  // exact for 16-bit operands
  const double sum = product + c;
  if (!std::isfinite(sum)) return sum;
  // TwoSum gives the exact error of the addition.
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  if (error == 0) return sum;
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if ((bits & 1) != 0) return sum;
  const bool away = (error > 0) == (sum > 0);
  bits = away ? bits + 1 : bits - 1;
  return std::bit_cast<double>(bits);
}

}  // namespace gpuwire::softgpu::ptx
