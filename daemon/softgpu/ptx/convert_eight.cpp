// SPDX-License-Identifier: Apache-2.0
// cvt between pairs of the 8-bit formats e4m3 and e5m2 and .f16x2 or .f32.
#include <algorithm>

#include "float_math.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

struct eight_format {
  int mantissa_bits;
  int exponent_min;  // of the smallest normal number
  double largest;
  std::uint8_t largest_bits;
};
constexpr eight_format e4m3{3, -6, 448, 0x7E};
constexpr eight_format e5m2{2, -14, 57344, 0x7B};
constexpr std::uint8_t eight_nan = 0x7F;

// Rounds to nearest even; what is too large becomes the largest number.
std::uint8_t narrow(double v, const eight_format& f, bool relu) {
  if (std::isnan(v)) return eight_nan;
  if (relu && v <= 0) return 0;
  const auto sign = static_cast<std::uint8_t>(std::signbit(v) ? 0x80 : 0);
  const double magnitude = std::fabs(v);
  if (magnitude >= f.largest) return sign | f.largest_bits;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), f.exponent_min);
  const double units = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent));
  // A carry out of the mantissa is the next exponent, and a subnormal number has exponent field
  // zero.
  const auto field = static_cast<unsigned>(exponent - f.exponent_min) << f.mantissa_bits;
  const auto bits = static_cast<std::uint8_t>(field + static_cast<unsigned>(units));
  return sign | std::min(bits, f.largest_bits);
}

double widen(std::uint8_t bits, const eight_format& f) {
  const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
  const int field = (bits & 0x7F) >> f.mantissa_bits;
  double v;
  if (f.largest_bits == e5m2.largest_bits && field == 31)
    v = mantissa != 0 ? std::nan("") : std::numeric_limits<double>::infinity();
  else if (f.largest_bits == e4m3.largest_bits && (bits & 0x7F) == eight_nan)
    v = std::nan("");
  else if (field == 0)
    v = std::ldexp(mantissa, f.exponent_min - f.mantissa_bits);
  else
    v = std::ldexp(mantissa + (1 << f.mantissa_bits), f.exponent_min + field - 1 - f.mantissa_bits);
  return (bits & 0x80) != 0 ? -v : v;
}

enum : std::uint32_t { wide_range = 1, with_relu = 2 };

const eight_format& format_of(const instruction& i) {
  return (i.sub & wide_range) != 0 ? e5m2 : e4m3;
}

void from_singles(executor& x, const instruction& i, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const bool relu = (i.sub & with_relu) != 0;
    const std::uint32_t high = narrow(get<float>(x.in(i.o[1]), l), format_of(i), relu);
    const std::uint32_t low = narrow(get<float>(x.in(i.o[2]), l), format_of(i), relu);
    put(x.out(i.o[0]), l, high << 8 | low);
  }
}

void from_halves(executor& x, const instruction& i, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const auto word = get<std::uint32_t>(x.in(i.o[1]), l);
    const bool relu = (i.sub & with_relu) != 0;
    const std::uint32_t high =
        narrow(from_half(static_cast<std::uint16_t>(word >> 16)), format_of(i), relu);
    const std::uint32_t low =
        narrow(from_half(static_cast<std::uint16_t>(word)), format_of(i), relu);
    put(x.out(i.o[0]), l, high << 8 | low);
  }
}

void to_halves(executor& x, const instruction& i, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const auto word = get<std::uint32_t>(x.in(i.o[1]), l);
    const std::uint32_t high = to_half(widen(static_cast<std::uint8_t>(word >> 8), format_of(i)));
    const std::uint32_t low = to_half(widen(static_cast<std::uint8_t>(word), format_of(i)));
    const bool relu = (i.sub & with_relu) != 0;
    const auto keep = [&](std::uint32_t h) { return relu && (h & 0x8000) != 0 ? 0u : h; };
    put(x.out(i.o[0]), l, keep(high) << 16 | keep(low));
  }
}

bool decode(builder& b, const form& f) {
  const bool wide = f.has("e5m2x2");
  if ((!wide && !f.has("e4m3x2")) || f.types.size() != 1 || !f.has("rn")) return false;
  const auto last = f.statement->modifiers.back();
  const bool to_eight = last == "f32" || last == "f16x2";
  instruction* i = nullptr;
  if (!to_eight) {
    i = &b.emit(to_halves, {b.destination(f.operand(0), type::b32)},
                {b.source(f.operand(1), type::b16)});
  } else if (f.t() == type::f32) {
    i = &b.emit(from_singles, {b.destination(f.operand(0), type::b16)},
                {b.source(f.operand(1), type::f32), b.source(f.operand(2), type::f32)});
  } else {
    i = &b.emit(from_halves, {b.destination(f.operand(0), type::b16)},
                {b.source(f.operand(1), type::b32)});
  }
  if (wide) i->sub |= wide_range;
  if (f.has("relu")) i->sub |= with_relu;
  return true;
}

constexpr decode_entry entries[] = {{"cvt", decode}};

}  // namespace

decode_table convert_eight_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
