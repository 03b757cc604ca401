// SPDX-License-Identifier: Apache-2.0
// Arithmetic of .f32 and .f64. The default form of each operation has a handler of its own that
// vectorises; any other modifier takes the general handler.
#include <type_traits>

#include "float_math.hpp"
#include "lanes.hpp"
#include "select.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

struct add_op {
  template <class T>
  T operator()(T a, T b) const {
    return canonical(a + b);
  }
};
struct subtract_op {
  template <class T>
  T operator()(T a, T b) const {
    return canonical(a - b);
  }
};
struct multiply_op {
  template <class T>
  T operator()(T a, T b) const {
    return canonical(a * b);
  }
};
struct divide_op {
  template <class T>
  T operator()(T a, T b) const {
    return canonical(a / b);
  }
};
struct square_root_op {
  template <class T>
  T operator()(T a) const {
    return canonical(std::sqrt(a));
  }
};
struct reciprocal_op {
  template <class T>
  T operator()(T a) const {
    return canonical(T{1} / a);
  }
};
struct fused_op {
  template <class T>
  T operator()(T a, T b, T c) const {
    return canonical(std::fma(a, b, c));
  }
};

#if defined(__x86_64__)
// std::fma is a call into the library unless the instruction set is known to have it.
template <class T>
[[gnu::target("avx2,fma")]] void fused_native(executor& x, const instruction& i,
                                              std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte *a = x.in(i.o[1]), *b = x.in(i.o[2]), *c = x.in(i.o[3]);
  if (lanes == all_lanes) {
    GPUWIRE_INDEPENDENT_LANES
    for (std::uint32_t l = 0; l < warp_lanes; ++l) {
      T p, q, r;
      std::memcpy(&p, a + l * sizeof(T), sizeof p);
      std::memcpy(&q, b + l * sizeof(T), sizeof q);
      std::memcpy(&r, c + l * sizeof(T), sizeof r);
      T v = std::is_same_v<T, float> ? __builtin_fmaf(p, q, r) : __builtin_fma(p, q, r);
      if constexpr (std::is_same_v<T, float>)
        if (v != v) v = __builtin_bit_cast(float, canonical_nan_32);
      std::memcpy(d + l * sizeof(T), &v, sizeof v);
    }
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    put<T>(d, l, fused_op{}(get<T>(a, l), get<T>(b, l), get<T>(c, l)));
  }
}
#endif

template <class T>
handler fused_handler() {
#if defined(__x86_64__)
  static const bool native = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
  if (native) return fused_native<T>;
#endif
  return ternary<fused_op, T>;
}

// Any modifiers. o[1..3] are a, b and c as far as the operation has them; `extra` says how many.
template <class T, float_op Op, bool Reciprocal = false>
void general(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte *pa = x.in(i.o[1]), *pb = x.in(i.o[2]), *pc = x.in(i.o[3]);
  const std::uint32_t mode = i.sub;
  const rounding r = unpack_rounding(mode);
  const bool ftz = (mode & float_mode::ftz) != 0;
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    T a = Reciprocal ? T{1} : get<T>(pa, l);
    T b = get<T>(Reciprocal ? pa : pb, l), c = get<T>(pc, l);
    if (ftz) {
      a = flush(a);
      b = flush(b);
      c = flush(c);
    }
    T v = directed(Op, a, b, c, r);
    if (ftz) v = flush(v);
    v = canonical(v);
    if ((mode & float_mode::saturate) != 0) v = saturate(v);
    put<T>(d, l, v);
  }
}

std::uint32_t mode_of(const form& f) {
  std::uint32_t mode = pack_rounding(f.round());
  if (f.has("ftz")) mode |= float_mode::ftz;
  if (f.has("sat")) mode |= float_mode::saturate;
  return mode;
}

bool is_plain(std::uint32_t mode) {
  const rounding r = unpack_rounding(mode);
  return (mode & (float_mode::ftz | float_mode::saturate)) == 0 &&
         (r == rounding::none || r == rounding::nearest);
}

bool is_wide_float(const form& f) {
  return f.types.size() == 1 && (f.t() == type::f32 || f.t() == type::f64);
}

bool emit(builder& b, const form& f, handler plain, handler any, std::size_t sources) {
  if (f.operand_count() != sources + 1) return false;
  const auto mode = mode_of(f);
  const auto d = b.destination(f.operand(0), f.t());
  std::vector<std::uint32_t> uses;
  for (std::size_t n = 1; n <= sources; ++n) uses.push_back(b.source(f.operand(n), f.t()));
  b.emit(is_plain(mode) ? plain : any, std::span(&d, 1), uses).sub = mode;
  return true;
}

template <class Op, float_op General>
bool decode_binary(builder& b, const form& f) {
  if (!is_wide_float(f)) return false;
  return f.t() == type::f32 ? emit(b, f, binary<Op, float>, general<float, General>, 2)
                            : emit(b, f, binary<Op, double>, general<double, General>, 2);
}

// div.approx and div.full are within their error bounds when they are exact.
bool decode_divide(builder& b, const form& f) {
  return decode_binary<divide_op, float_op::divide>(b, f);
}

bool decode_fused(builder& b, const form& f) {
  if (!is_wide_float(f)) return false;
  return f.t() == type::f32
             ? emit(b, f, fused_handler<float>(), general<float, float_op::fused>, 3)
             : emit(b, f, fused_handler<double>(), general<double, float_op::fused>, 3);
}

bool decode_square_root(builder& b, const form& f) {
  if (!is_wide_float(f)) return false;
  return f.t() == type::f32
             ? emit(b, f, unary<square_root_op, float>, general<float, float_op::square_root>, 1)
             : emit(b, f, unary<square_root_op, double>, general<double, float_op::square_root>, 1);
}

bool decode_reciprocal(builder& b, const form& f) {
  if (!is_wide_float(f) || (f.has("approx") && f.t() == type::f64)) return false;
  return f.t() == type::f32
             ? emit(b, f, unary<reciprocal_op, float>, general<float, float_op::divide, true>, 1)
             : emit(b, f, unary<reciprocal_op, double>, general<double, float_op::divide, true>, 1);
}

template <class T>
T extreme(T a, T b, std::uint32_t mode, bool max) {
  if ((mode & float_mode::ftz) != 0) {
    a = flush(a);
    b = flush(b);
  }
  const bool sign = std::signbit(a) != std::signbit(b);
  if ((mode & float_mode::xor_sign) != 0) {
    a = std::fabs(a);
    b = std::fabs(b);
  }
  T result;
  if (a != a || b != b) {
    const bool nan = (mode & float_mode::nan) != 0 || (a != a && b != b);
    result = nan ? std::numeric_limits<T>::quiet_NaN() : (a != a ? b : a);
    if constexpr (std::is_same_v<T, float>) result = canonical(result);
    if (nan) return result;
  } else if (a == b) {
    // Zeros of either sign compare equal, but -0 is the lesser.
    result = std::signbit(a) == max ? b : a;
  } else {
    result = (a < b) == max ? b : a;
  }
  if ((mode & float_mode::xor_sign) != 0) result = std::copysign(result, sign ? T{-1} : T{1});
  return result;
}

template <class T, bool Max>
void extreme_lanes(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte *a = x.in(i.o[1]), *b = x.in(i.o[2]), *c = x.in(i.o[3]);
  const std::uint32_t mode = i.sub;
  const bool three = i.extra != 0;
  for_lanes(lanes, [=](std::uint32_t l) {
    T v = extreme(get<T>(a, l), get<T>(b, l), mode, Max);
    if (three) v = extreme(v, get<T>(c, l), mode, Max);
    put<T>(d, l, v);
  });
}

template <bool Max>
bool decode_extreme(builder& b, const form& f) {
  if (!is_wide_float(f)) return false;
  std::uint32_t mode = mode_of(f);
  if (f.has("NaN")) mode |= float_mode::nan;
  if (f.has("xorsign")) mode |= float_mode::xor_sign;
  const handler run = f.t() == type::f32 ? extreme_lanes<float, Max> : extreme_lanes<double, Max>;
  const bool three = f.operand_count() == 4;
  if (!emit(b, f, run, run, three ? 3 : 2)) return false;
  b.target().instructions.back().sub = mode;
  b.target().instructions.back().extra = three ? 1 : 0;
  return true;
}

template <class T, bool Negate>
void sign_lanes(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  const bool ftz = (i.sub & float_mode::ftz) != 0;
  for_lanes(lanes, [=](std::uint32_t l) {
    T v = get<T>(a, l);
    if (ftz) v = flush(v);
    const T result = Negate ? -v : std::fabs(v);
    put<T>(d, l, v == v ? result : quiet(v));
  });
}

template <bool Negate>
bool decode_sign(builder& b, const form& f) {
  if (!is_wide_float(f)) return false;
  const handler run = f.t() == type::f32 ? sign_lanes<float, Negate> : sign_lanes<double, Negate>;
  return emit(b, f, run, run, 1);
}

// copysign d, a, b: the sign of a, the magnitude of b.
struct copy_sign_op {
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};
bool decode_copy_sign(builder& b, const form& f) {
  if (!is_wide_float(f)) return false;
  const handler run = select_floating<binary_of<copy_sign_op>::of>(f.t());
  return emit(b, f, run, run, 2);
}

enum : std::uint32_t {
  test_finite,
  test_infinite,
  test_number,
  test_nan,
  test_normal,
  test_subnormal
};

template <class T>
void test_lanes(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::byte* a = x.in(i.o[1]);
  std::uint32_t result = 0;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(m));
    const int kind = std::fpclassify(get<T>(a, l));
    bool yes = false;
    switch (i.sub) {
      case test_finite:
        yes = kind != FP_INFINITE && kind != FP_NAN;
        break;
      case test_infinite:
        yes = kind == FP_INFINITE;
        break;
      case test_number:
        yes = kind != FP_NAN;
        break;
      case test_nan:
        yes = kind == FP_NAN;
        break;
      case test_normal:
        yes = kind == FP_NORMAL || kind == FP_ZERO;
        break;
      default:
        yes = kind == FP_SUBNORMAL;
    }
    result |= static_cast<std::uint32_t>(yes) << l;
  }
  x.set_predicate(i.o[0], lanes, result);
}

bool decode_test(builder& b, const form& f) {
  if (!is_wide_float(f)) return false;
  constexpr std::string_view names[] = {"finite",     "infinite", "number",
                                        "notanumber", "normal",   "subnormal"};
  for (std::uint32_t n = 0; n < std::size(names); ++n) {
    if (!f.has(names[n])) continue;
    b.emit(f.t() == type::f32 ? test_lanes<float> : test_lanes<double>,
           {b.destination(f.operand(0), type::pred)}, {b.source(f.operand(1), f.t())})
        .sub = n;
    return true;
  }
  return false;
}

constexpr decode_entry entries[] = {
    {"add", decode_binary<add_op, float_op::add>},
    {"sub", decode_binary<subtract_op, float_op::subtract>},
    {"mul", decode_binary<multiply_op, float_op::multiply>},
    {"div", decode_divide},
    {"fma", decode_fused},
    {"mad", decode_fused},
    {"sqrt", decode_square_root},
    {"rcp", decode_reciprocal},
    {"min", decode_extreme<false>},
    {"max", decode_extreme<true>},
    {"neg", decode_sign<true>},
    {"abs", decode_sign<false>},
    {"copysign", decode_copy_sign},
    {"testp", decode_test},
};

}  // namespace

decode_table floating_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
