// SPDX-License-Identifier: Apache-2.0
// The approximations of the special-function unit. Computed in double precision and rounded once,
// they lie well within the error bounds that PTX states, though not bit for bit on the hardware's
// values.
#include <numbers>

#include "float_math.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

// The unit works on multiples of the full circle, and the multiplication before it rounds towards
// zero and flushes: so large arguments lose their digits as natively.
double turns(double v) {
  constexpr float turns_per_radian = 0.15915494f;
  const float product =
      directed(float_op::multiply, static_cast<float>(v), turns_per_radian, 0.0f, rounding::zero);
  return flush(product);
}
double sine(double v) {
  return std::sin(2 * std::numbers::pi * std::remainder(turns(v), 1.0));
}
double cosine(double v) {
  return std::cos(2 * std::numbers::pi * std::remainder(turns(v), 1.0));
}
double logarithm(double v) {
  return std::log2(v);
}
double power(double v) {
  return std::exp2(v);
}
double hyperbolic_tangent(double v) {
  return std::tanh(v);
}
double reciprocal_root(double v) {
  return static_cast<double>(1.0L / std::sqrt(static_cast<long double>(v)));
}

template <double (*Function)(double)>
void single(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  const bool ftz = (i.sub & float_mode::ftz) != 0;
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    float v = get<float>(a, l);
    if (ftz) v = flush(v);
    v = static_cast<float>(Function(v));
    if (ftz) v = flush(v);
    put(d, l, canonical(v));
  }
}

// The .ftz approximations of double precision deliver the upper 32 bits of the result and flush
// subnormal numbers.
template <bool Root>
void upper_half(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  const auto flushed = [](double v) {
    return std::fabs(v) < std::numeric_limits<double>::min() ? std::copysign(0.0, v) : v;
  };
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    double v = flushed(get<double>(a, l));
    v = flushed(Root ? reciprocal_root(v) : 1.0 / v);
    auto bits = (std::bit_cast<std::uint64_t>(v) + 0x8000'0000ull) & ~0xFFFF'FFFFull;
    if (v != v) bits = 0x7FFF'FFFF'0000'0000ull;
    put(d, l, bits);
  }
}

void reciprocal_root_full(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const double v = get<double>(a, l);
    double result = v == v ? reciprocal_root(v) : quiet(v);
    if (v < 0) result = std::bit_cast<double>(0xFFF8'0000'0000'0000ull);
    put(d, l, result);
  }
}

template <double (*Function)(double), bool Bfloat>
void halves(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const auto word = get<std::uint32_t>(a, l);
    std::uint32_t result = 0;
    for (std::uint32_t n = 0; n < i.count; ++n) {
      const auto half = static_cast<std::uint16_t>(word >> (n * 16));
      const float v = Bfloat ? from_bfloat(half) : from_half(half);
      const double y = Function(v);
      result |= std::uint32_t{Bfloat ? to_bfloat(y) : to_half(y)} << (n * 16);
    }
    put(d, l, result);
  }
}

template <double (*Function)(double)>
bool decode(builder& b, const form& f) {
  if (f.types.size() != 1) return false;
  const type t = f.t();
  handler run = nullptr;
  if (t == type::f32) run = single<Function>;
  if (t == type::f16 || t == type::f16x2) run = halves<Function, false>;
  if (t == type::bf16 || t == type::bf16x2) run = halves<Function, true>;
  if (run == nullptr) return false;
  instruction& i = b.emit(run, {b.destination(f.operand(0), t)}, {b.source(f.operand(1), t)});
  i.sub = f.has("ftz") ? float_mode::ftz : 0;
  i.count = t == type::f16x2 || t == type::bf16x2 ? 2 : 1;
  return true;
}

template <bool Root>
bool decode_double(builder& b, const form& f) {
  if (f.types.size() != 1 || f.t() != type::f64 || !f.has("approx")) return false;
  if (!Root && !f.has("ftz")) return false;
  b.emit(f.has("ftz") ? upper_half<Root> : reciprocal_root_full,
         {b.destination(f.operand(0), type::f64)}, {b.source(f.operand(1), type::f64)});
  return true;
}

constexpr decode_entry entries[] = {
    {"sin", decode<sine>},
    {"cos", decode<cosine>},
    {"lg2", decode<logarithm>},
    {"ex2", decode<power>},
    {"tanh", decode<hyperbolic_tangent>},
    {"rsqrt", decode<reciprocal_root>},
    {"rsqrt", decode_double<true>},
    {"rcp", decode_double<false>},
};

}  // namespace

decode_table approximate_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
