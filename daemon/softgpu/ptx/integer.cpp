// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic of 16 to 64 bits. Signed operations wrap, so they run on unsigned values.
#include <algorithm>
#include <limits>

#include "builder.hpp"
#include "lanes.hpp"
#include "select.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

template <class T>
using bits_of = unsigned_of<sizeof(T)>;

// Narrow values promote to int, in which products of 16 bits can overflow; 32 bits of unsigned
// cannot trap.
template <class T>
using wrapping = std::conditional_t<sizeof(T) < 4, std::uint32_t, bits_of<T>>;

struct add_op {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(wrapping<T>(a) + wrapping<T>(b));
  }
};
struct subtract_op {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(wrapping<T>(a) - wrapping<T>(b));
  }
};
struct multiply_low_op {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(wrapping<T>(a) * wrapping<T>(b));
  }
};
template <class T>
T multiply_high(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<wide>(a) * static_cast<wide>(b)) >> 64);
  } else {
    using wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>((static_cast<wide>(a) * static_cast<wide>(b)) >> (sizeof(T) * 8));
  }
}
struct multiply_high_op {
  template <class T>
  T operator()(T a, T b) const {
    return multiply_high(a, b);
  }
};
struct multiply_add_op {
  template <class T>
  T operator()(T a, T b, T c) const {
    return static_cast<T>(wrapping<T>(a) * wrapping<T>(b) + wrapping<T>(c));
  }
};
struct multiply_add_high_op {
  template <class T>
  T operator()(T a, T b, T c) const {
    return add_op{}(multiply_high(a, b), c);
  }
};
// mad.hi.sat.s32 and add.sat.s32 clamp instead of wrapping.
std::int32_t clamp_32(std::int64_t v) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(
      v, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
}
struct add_saturating_op {
  std::int32_t operator()(std::int32_t a, std::int32_t b) const {
    return clamp_32(std::int64_t{a} + b);
  }
};
struct subtract_saturating_op {
  std::int32_t operator()(std::int32_t a, std::int32_t b) const {
    return clamp_32(std::int64_t{a} - b);
  }
};
struct multiply_add_high_saturating_op {
  std::int32_t operator()(std::int32_t a, std::int32_t b, std::int32_t c) const {
    return clamp_32(std::int64_t{multiply_high(a, b)} + c);
  }
};
template <class Wide>
struct multiply_wide_op {
  template <class T>
  Wide operator()(T a, T b) const {
    using u = std::make_unsigned_t<Wide>;
    return static_cast<Wide>(static_cast<u>(static_cast<Wide>(a)) *
                             static_cast<u>(static_cast<Wide>(b)));
  }
  template <class T>
  Wide operator()(T a, T b, Wide c) const {
    return add_op{}((*this)(a, b), c);
  }
};
// The hardware divides by zero without a trap: all bits of the quotient and of the remainder are
// set.
struct divide_op {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return subtract_op{}(T{0}, a);
    return static_cast<T>(a / b);
  }
};
struct remainder_op {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return static_cast<T>(a % b);
  }
};
struct minimum_op {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
struct maximum_op {
  template <class T>
  T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct negate_op {
  template <class T>
  T operator()(T a) const {
    return subtract_op{}(T{0}, a);
  }
};
struct absolute_op {
  template <class T>
  T operator()(T a) const {
    return a < 0 ? negate_op{}(a) : a;
  }
};
struct sum_of_differences_op {
  template <class T>
  T operator()(T a, T b, T c) const {
    return add_op{}(c, a < b ? subtract_op{}(b, a) : subtract_op{}(a, b));
  }
};
template <class T, bool High>
struct multiply_24_op {
  static std::int64_t product(T a, T b) {
    const auto extend = [](T v) -> std::int64_t {
      if constexpr (std::is_signed_v<T>)
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(v) << 8) >> 8;
      return v & 0xFF'FFFF;
    };
    return extend(a) * extend(b);
  }
  T operator()(T a, T b) const { return static_cast<T>(product(a, b) >> (High ? 16 : 0)); }
  T operator()(T a, T b, T c) const { return add_op{}((*this)(a, b), c); }
};

bool is_integer(type t) {
  return !is_floating(t) && t != type::pred;
}

bool emit_two(builder& b, const form& f, handler run, type d, type a) {
  if (run == nullptr) return false;
  b.emit(run, {b.destination(f.operand(0), d)},
         {b.source(f.operand(1), a), b.source(f.operand(2), a)});
  return true;
}

bool emit_three(builder& b, const form& f, handler run, type d, type a, type c) {
  if (run == nullptr) return false;
  b.emit(run, {b.destination(f.operand(0), d)},
         {b.source(f.operand(1), a), b.source(f.operand(2), a), b.source(f.operand(3), c)});
  return true;
}

bool emit_one(builder& b, const form& f, handler run, type t) {
  if (run == nullptr) return false;
  b.emit(run, {b.destination(f.operand(0), t)}, {b.source(f.operand(1), t)});
  return true;
}

template <class Op>
bool decode_binary(builder& b, const form& f) {
  if (f.types.empty() || !is_integer(f.t()) || f.has("cc")) return false;
  return emit_two(b, f, select_integer<binary_of<Op>::template of>(f.t()), f.t(), f.t());
}

bool decode_add(builder& b, const form& f) {
  if (f.has("sat") && f.t() == type::s32)
    return emit_two(b, f, binary<add_saturating_op, std::int32_t>, type::s32, type::s32);
  return decode_binary<add_op>(b, f);
}

bool decode_subtract(builder& b, const form& f) {
  if (f.has("sat") && f.t() == type::s32)
    return emit_two(b, f, binary<subtract_saturating_op, std::int32_t>, type::s32, type::s32);
  return decode_binary<subtract_op>(b, f);
}

type widened(type t) {
  switch (t) {
    case type::u16:
      return type::u32;
    case type::s16:
      return type::s32;
    case type::u32:
      return type::u64;
    case type::s32:
      return type::s64;
    default:
      return type::pred;
  }
}

handler select_wide(type t, bool add) {
  switch (t) {
    case type::u16:
      return add ? ternary<multiply_wide_op<std::uint32_t>, std::uint32_t, std::uint16_t>
                 : binary<multiply_wide_op<std::uint32_t>, std::uint32_t, std::uint16_t>;
    case type::s16:
      return add ? ternary<multiply_wide_op<std::int32_t>, std::int32_t, std::int16_t>
                 : binary<multiply_wide_op<std::int32_t>, std::int32_t, std::int16_t>;
    case type::u32:
      return add ? ternary<multiply_wide_op<std::uint64_t>, std::uint64_t, std::uint32_t>
                 : binary<multiply_wide_op<std::uint64_t>, std::uint64_t, std::uint32_t>;
    case type::s32:
      return add ? ternary<multiply_wide_op<std::int64_t>, std::int64_t, std::int32_t>
                 : binary<multiply_wide_op<std::int64_t>, std::int64_t, std::int32_t>;
    default:
      return nullptr;
  }
}

bool decode_multiply(builder& b, const form& f) {
  if (f.types.empty() || !is_integer(f.t())) return false;
  const type t = f.t();
  if (f.has("wide")) return emit_two(b, f, select_wide(t, false), widened(t), t);
  if (f.has("hi")) return emit_two(b, f, select_integer<binary_of<multiply_high_op>::of>(t), t, t);
  return emit_two(b, f, select_integer<binary_of<multiply_low_op>::of>(t), t, t);
}

bool decode_multiply_add(builder& b, const form& f) {
  if (f.types.empty() || !is_integer(f.t()) || f.has("cc")) return false;
  const type t = f.t();
  if (f.has("wide")) return emit_three(b, f, select_wide(t, true), widened(t), t, widened(t));
  if (f.has("hi") && f.has("sat"))
    return emit_three(b, f, ternary<multiply_add_high_saturating_op, std::int32_t>, t, t, t);
  if (f.has("hi"))
    return emit_three(b, f, select_integer<ternary_of<multiply_add_high_op>::of>(t), t, t, t);
  return emit_three(b, f, select_integer<ternary_of<multiply_add_op>::of>(t), t, t, t);
}

template <bool Add>
bool decode_24(builder& b, const form& f) {
  const bool high = f.has("hi");
  const type t = f.t();
  if (t != type::u32 && t != type::s32) return false;
  using u = std::uint32_t;
  using s = std::int32_t;
  if constexpr (Add) {
    handler run =
        t == type::u32
            ? (high ? ternary<multiply_24_op<u, true>, u> : ternary<multiply_24_op<u, false>, u>)
            : (high ? ternary<multiply_24_op<s, true>, s> : ternary<multiply_24_op<s, false>, s>);
    return emit_three(b, f, run, t, t, t);
  } else {
    handler run =
        t == type::u32
            ? (high ? binary<multiply_24_op<u, true>, u> : binary<multiply_24_op<u, false>, u>)
            : (high ? binary<multiply_24_op<s, true>, s> : binary<multiply_24_op<s, false>, s>);
    return emit_two(b, f, run, t, t);
  }
}

template <class Op>
bool decode_unary(builder& b, const form& f) {
  if (f.types.empty() || !is_integer(f.t())) return false;
  return emit_one(b, f, select_integer<unary_of<Op>::template of>(f.t()), f.t());
}

bool decode_sad(builder& b, const form& f) {
  return emit_three(b, f, select_integer<ternary_of<sum_of_differences_op>::of>(f.t()), f.t(),
                    f.t(), f.t());
}

// min and max of two 16-bit halves, and .relu, which clamps below at zero.
template <bool Max, class Half, bool Relu>
struct halves_op {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const {
    std::uint32_t result = 0;
    for (std::uint32_t shift : {0u, 16u}) {
      const auto x = static_cast<Half>(a >> shift), y = static_cast<Half>(b >> shift);
      Half chosen = Max ? std::max(x, y) : std::min(x, y);
      if (Relu) chosen = std::max<Half>(chosen, 0);
      result |= static_cast<std::uint32_t>(static_cast<std::uint16_t>(chosen)) << shift;
    }
    return result;
  }
};
struct add_halves_op {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const {
    return ((a + b) & 0xFFFF) | ((a & 0xFFFF'0000) + (b & 0xFFFF'0000));
  }
};
template <bool Max>
struct relu_op {
  std::int32_t operator()(std::int32_t a, std::int32_t b) const {
    return std::max(Max ? std::max(a, b) : std::min(a, b), 0);
  }
};

template <bool Max>
bool decode_extreme(builder& b, const form& f) {
  using word = std::uint32_t;
  if (f.has("u16x2"))
    return emit_two(b, f, binary<halves_op<Max, std::uint16_t, false>, word>, type::b32, type::b32);
  if (f.has("s16x2"))
    return emit_two(b, f,
                    f.has("relu") ? binary<halves_op<Max, std::int16_t, true>, word>
                                  : binary<halves_op<Max, std::int16_t, false>, word>,
                    type::b32, type::b32);
  if (f.has("relu") && !f.types.empty() && f.t() == type::s32)
    return emit_two(b, f, binary<relu_op<Max>, std::int32_t>, type::s32, type::s32);
  if constexpr (Max) return decode_binary<maximum_op>(b, f);
  return decode_binary<minimum_op>(b, f);
}

bool decode_add_halves(builder& b, const form& f) {
  if (!f.has("u16x2") && !f.has("s16x2")) return false;
  return emit_two(b, f, binary<add_halves_op, std::uint32_t>, type::b32, type::b32);
}

constexpr decode_entry entries[] = {
    {"add", decode_add_halves},
    {"add", [](builder& b, const form& f) { return !f.types.empty() && decode_add(b, f); }},
    {"sub", [](builder& b, const form& f) { return !f.types.empty() && decode_subtract(b, f); }},
    {"mul", decode_multiply},
    {"mad", decode_multiply_add},
    {"mul24", decode_24<false>},
    {"mad24", decode_24<true>},
    {"div", decode_binary<divide_op>},
    {"rem", decode_binary<remainder_op>},
    {"min", decode_extreme<false>},
    {"max", decode_extreme<true>},
    {"neg", decode_unary<negate_op>},
    {"abs", decode_unary<absolute_op>},
    {"sad", decode_sad},
};

}  // namespace

decode_table integer_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
