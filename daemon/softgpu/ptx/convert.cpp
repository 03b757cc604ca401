// SPDX-License-Identifier: Apache-2.0
// cvt, all combinations. Narrow results are extended to their register by sign or zero.
#include <algorithm>
#include <limits>

#include "float_math.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

struct half {
  std::uint16_t bits;
};
struct bfloat {
  std::uint16_t bits;
};

template <class T>
inline constexpr bool is_float =
    std::is_floating_point_v<T> || std::is_same_v<T, half> || std::is_same_v<T, bfloat>;

template <class T>
double to_double(T v) {
  if constexpr (std::is_same_v<T, half>)
    return from_half(v.bits);
  else if constexpr (std::is_same_v<T, bfloat>)
    return from_bfloat(v.bits);
  else
    return static_cast<double>(v);
}

template <class T>
void put_extended(std::byte* d, std::uint32_t l, T v) {
  if constexpr (sizeof(T) < 4 && std::is_signed_v<T>)
    put<std::int32_t>(d, l, v);
  else
    put<T>(d, l, v);
}

template <class D>
D convert_zero() {
  return D{0};
}

template <class D>
D integer_from(double v, std::uint32_t mode) {
  using limits = std::numeric_limits<D>;
  v = round_integral(v, unpack_rounding(mode));
  // 2^63 and 2^64 are exact in double while the limits of 64-bit integers are not.
  constexpr double above = sizeof(D) == 8 ? (std::is_signed_v<D> ? 0x1p63 : 0x1p64)
                                          : static_cast<double>(limits::max()) + 1;
  if (v >= above) return limits::max();
  if (v < static_cast<double>(limits::min())) return limits::min();
  return static_cast<D>(v);
}

template <class D, class S>
D saturated(S v) {
  using limits = std::numeric_limits<D>;
  const __int128 wide = v;
  return static_cast<D>(std::clamp<__int128>(wide, limits::min(), limits::max()));
}

// NaNs from double precision keep sign and payload as far as there is room; others become the one
// NaN of their kind.
template <class D, class S>
D convert_nan(S value, std::uint32_t mode) {
  if ((mode & float_mode::saturate) != 0) return convert_zero<D>();
  if constexpr (std::is_same_v<S, double>) {
    const auto bits = std::bit_cast<std::uint64_t>(quiet(value));
    if constexpr (std::is_same_v<D, double>)
      return std::bit_cast<double>(bits);
    else if constexpr (std::is_same_v<D, float>)
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32 & 0x8000'0000) |
                                  0x7F80'0000 | static_cast<std::uint32_t>(bits >> 29 & 0x7F'FFFF));
    else if constexpr (std::is_same_v<D, half>)
      return half{
          static_cast<std::uint16_t>((bits >> 48 & 0x8000) | 0x7C00 | (bits >> 42 & 0x3FF))};
    else
      return bfloat{0x7FFF};
  } else {
    if constexpr (std::is_same_v<D, double>) {
      if ((mode & float_mode::ftz) != 0) return static_cast<double>(canonical(value));
      return static_cast<double>(value);
    } else if constexpr (std::is_same_v<D, float>)
      return canonical(value);
    else
      return D{0x7FFF};
  }
}

template <class D, class S>
D convert(S value, std::uint32_t mode) {
  const rounding r = unpack_rounding(mode);
  if constexpr (!is_float<D> && !is_float<S>) {
    if ((mode & float_mode::saturate) != 0) return saturated<D>(value);
    return static_cast<D>(value);
  } else if constexpr (!is_float<D>) {
    double v = to_double(value);
    if ((mode & float_mode::ftz) != 0 && std::is_same_v<S, float>) v = flush(static_cast<float>(v));
    if (v != v) {
      // PTX: zero, except that 64-bit floats or integers give the value with only the highest bit
      // set.
      constexpr bool wide = std::is_same_v<S, double> || sizeof(D) == 8;
      return wide ? static_cast<D>(std::uint64_t{1} << (sizeof(D) * 8 - 1)) : D{0};
    }
    return integer_from<D>(v, mode);
  } else if constexpr (!is_float<S>) {
    using wide = std::conditional_t<std::is_signed_v<S>, std::int64_t, std::uint64_t>;
    if constexpr (std::is_same_v<D, float>) {
      if (r == rounding::nearest || r == rounding::none) return static_cast<float>(value);
      return integer_to_single(wide{value}, r);
    } else if constexpr (std::is_same_v<D, double>) {
      if (r == rounding::nearest || r == rounding::none) return static_cast<double>(value);
      return integer_to_double(wide{value}, r);
    } else {
      // 64-bit integers lose bits in double only beyond the range of f16; bf16 rounds from a sticky
      // value.
      double v = integer_to_double(wide{value}, rounding::zero);
      if (static_cast<__int128>(v) != static_cast<__int128>(value))
        v = std::bit_cast<double>(std::bit_cast<std::uint64_t>(v) | 1);
      if constexpr (std::is_same_v<D, half>)
        return D{to_half(v, r)};
      else
        return D{to_bfloat(v, r)};
    }
  } else {
    if constexpr (!std::is_same_v<S, half> && !std::is_same_v<S, bfloat>)
      if (value != value) return convert_nan<D>(value, mode);
    double v = to_double(value);
    if ((mode & float_mode::ftz) != 0 && std::is_same_v<S, float>) v = flush(static_cast<float>(v));
    const bool integral = (mode & float_mode::abs) != 0;  // rni, rzi, rmi, rpi
    if (integral && v == v) v = std::copysign(round_integral(v, r), v);
    if ((mode & float_mode::saturate) != 0) v = saturate(v);
    if ((mode & float_mode::relu) != 0 && v <= 0) v = 0;
    const rounding final = integral ? rounding::nearest : r;
    if constexpr (std::is_same_v<D, double>) {
      return v;
    } else if constexpr (std::is_same_v<D, float>) {
      float result = final == rounding::nearest || final == rounding::none
                         ? static_cast<float>(v)
                         : round_to_single(v, final);
      if ((mode & float_mode::ftz) != 0) result = flush(result);
      return canonical(result);
    } else if constexpr (std::is_same_v<D, half>) {
      return D{to_half(v, final)};
    } else {
      return D{to_bfloat(v, final)};
    }
  }
}

// The NaNs of 16-bit formats widen with their payload, except that f16 has one NaN in single
// precision.
double widen_nan(half v) {
  const std::uint64_t bits = std::uint64_t{v.bits & 0x8000u} << 48 | 0x7FF8'0000'0000'0000 |
                             std::uint64_t{v.bits & 0x3FFu} << 42;
  return std::bit_cast<double>(bits);
}

template <class D, class S>
void convert_lanes(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  const std::uint32_t mode = i.sub;
  if constexpr (!is_float<D> && !is_float<S>) {
    if ((mode & float_mode::saturate) == 0) {
      for_lanes(lanes, [=](std::uint32_t l) { put_extended(d, l, static_cast<D>(get<S>(a, l))); });
      return;
    }
  }
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const S value = get<S>(a, l);
    if constexpr (std::is_same_v<S, half> && std::is_same_v<D, double>) {
      if ((value.bits & 0x7FFF) > 0x7C00 && (mode & float_mode::saturate) == 0) {
        put(d, l, widen_nan(value));
        continue;
      }
    }
    if constexpr (std::is_same_v<S, bfloat> && std::is_same_v<D, float>) {
      if (mode == 0) {
        put(d, l, from_bfloat(value.bits));
        continue;
      }
    }
    put_extended(d, l, convert<D>(value, mode));
  }
}

template <class D>
handler select_source(type s) {
  switch (s) {
    case type::u8:
    case type::b8:
      return convert_lanes<D, std::uint8_t>;
    case type::u16:
    case type::b16:
      return convert_lanes<D, std::uint16_t>;
    case type::u32:
    case type::b32:
      return convert_lanes<D, std::uint32_t>;
    case type::u64:
    case type::b64:
      return convert_lanes<D, std::uint64_t>;
    case type::s8:
      return convert_lanes<D, std::int8_t>;
    case type::s16:
      return convert_lanes<D, std::int16_t>;
    case type::s32:
      return convert_lanes<D, std::int32_t>;
    case type::s64:
      return convert_lanes<D, std::int64_t>;
    case type::f16:
      return convert_lanes<D, half>;
    case type::bf16:
      return convert_lanes<D, bfloat>;
    case type::f32:
      return convert_lanes<D, float>;
    case type::f64:
      return convert_lanes<D, double>;
    default:
      return nullptr;
  }
}

handler select_conversion(type d, type s) {
  switch (d) {
    case type::u8:
    case type::b8:
      return select_source<std::uint8_t>(s);
    case type::u16:
    case type::b16:
      return select_source<std::uint16_t>(s);
    case type::u32:
    case type::b32:
      return select_source<std::uint32_t>(s);
    case type::u64:
    case type::b64:
      return select_source<std::uint64_t>(s);
    case type::s8:
      return select_source<std::int8_t>(s);
    case type::s16:
      return select_source<std::int16_t>(s);
    case type::s32:
      return select_source<std::int32_t>(s);
    case type::s64:
      return select_source<std::int64_t>(s);
    case type::f16:
      return select_source<half>(s);
    case type::bf16:
      return select_source<bfloat>(s);
    case type::f32:
      return select_source<float>(s);
    case type::f64:
      return select_source<double>(s);
    default:
      return nullptr;
  }
}

std::uint32_t mode_of(const form& f) {
  std::uint32_t mode = pack_rounding(f.round());
  if (f.has("ftz")) mode |= float_mode::ftz;
  if (f.has("sat")) mode |= float_mode::saturate;
  if (f.has("relu")) mode |= float_mode::relu;
  for (const auto w : f.words)
    if (w == "rni" || w == "rzi" || w == "rmi" || w == "rpi") mode |= float_mode::abs;
  return mode;
}

// cvt.rn.f16x2.f32 d, a, b: a to the high half, b to the low one.
template <class D>
void convert_pair(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte *a = x.in(i.o[1]), *b = x.in(i.o[2]);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const D high = convert<D>(get<float>(a, l), i.sub), low = convert<D>(get<float>(b, l), i.sub);
    put(d, l, std::uint32_t{high.bits} << 16 | low.bits);
  }
}

// cvt.rna.tf32.f32: ten bits of mantissa stay, rounded away from zero at the half.
void convert_tensor_float(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    auto bits = get<std::uint32_t>(a, l);
    if ((bits & 0x7F80'0000) != 0x7F80'0000) bits += 0x1000;
    put(d, l, bits & 0xFFFF'E000);
  }
}

bool decode_pair(builder& b, const form& f) {
  if (f.types.size() != 2 || f.operand_count() != 3 || f.t(1) != type::f32) return false;
  if (f.t(0) != type::f16x2 && f.t(0) != type::bf16x2) return false;
  b.emit(f.t(0) == type::f16x2 ? convert_pair<half> : convert_pair<bfloat>,
         {b.destination(f.operand(0), type::b32)},
         {b.source(f.operand(1), type::f32), b.source(f.operand(2), type::f32)})
      .sub = mode_of(f);
  return true;
}

bool decode_convert(builder& b, const form& f) {
  if (f.types.size() != 2 || f.operand_count() != 2) return false;
  type d = f.t(0), s = f.t(1);
  if (d == type::tf32 && s == type::f32) {
    b.emit(convert_tensor_float, {b.destination(f.operand(0), type::b32)},
           {b.source(f.operand(1), s)});
    return true;
  }
  const handler run = select_conversion(d, s);
  if (run == nullptr) return false;
  // Sources may lie in wider registers: their low bits count.
  const auto from = b.source(f.operand(1), s);
  b.emit(run, {b.destination(f.operand(0), d)}, {from}).sub = mode_of(f);
  return true;
}

// cvt.pack.sat.<s8|u8|s16|u16>.s32[.b32] d, a, b[, c]: saturated a and b, above c's low part when
// there is one.
void pack_lanes(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte *a = x.in(i.o[1]), *b = x.in(i.o[2]), *c = x.in(i.o[3]);
  const std::uint32_t bits = i.sub & 0xFF;
  const bool is_signed_result = (i.sub & 0x100) != 0;
  const std::int64_t low = is_signed_result ? -(std::int64_t{1} << (bits - 1)) : 0;
  const std::int64_t high = (std::int64_t{1} << (is_signed_result ? bits - 1 : bits)) - 1;
  const auto ones = static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const auto part = [&](const std::byte* p) {
      return static_cast<std::uint32_t>(
                 std::clamp<std::int64_t>(get<std::int32_t>(p, l), low, high)) &
             ones;
    };
    const std::uint64_t rest = i.extra != 0 ? get<std::uint32_t>(c, l) : 0;
    put(d, l, static_cast<std::uint32_t>(rest << (2 * bits)) | part(a) << bits | part(b));
  }
}

bool decode_pack(builder& b, const form& f) {
  if (!f.has("pack") || f.types.size() < 2) return false;
  const bool three = f.operand_count() == 4;
  const auto rest = three ? b.source(f.operand(3), type::b32) : constant_tag;
  instruction& i =
      b.emit(pack_lanes, {b.destination(f.operand(0), type::b32)},
             {b.source(f.operand(1), type::s32), b.source(f.operand(2), type::s32), rest});
  i.sub = bytes_of(f.t(0)) * 8 | (is_signed(f.t(0)) ? 0x100 : 0);
  i.extra = three ? 1 : 0;
  return bytes_of(f.t(0)) <= 2;
}

constexpr decode_entry entries[] = {
    {"cvt", decode_pack},
    {"cvt", decode_pair},
    {"cvt", decode_convert},
};

}  // namespace

decode_table convert_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
