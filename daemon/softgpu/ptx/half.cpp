// SPDX-License-Identifier: Apache-2.0
// Arithmetic of .f16, .bf16 and their pairs. Each operation is exact in a wider format, then
// rounded once.
#include "float_math.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

enum class half_op : std::uint8_t {
  add,
  subtract,
  multiply,
  fused,
  minimum,
  maximum,
  negate,
  absolute
};

struct half_format {
  static float widen(std::uint16_t bits) { return from_half(bits); }
  static std::uint16_t round(double v) { return to_half(v); }
  static constexpr std::uint16_t smallest_normal = 0x0400;
};
struct bfloat_format {
  static float widen(std::uint16_t bits) { return from_bfloat(bits); }
  static std::uint16_t round(double v) { return to_bfloat(v); }
  static constexpr std::uint16_t smallest_normal = 0x0080;
};

constexpr std::uint16_t half_nan = 0x7FFF;
constexpr std::uint16_t sign_bit = 0x8000;

template <class Format>
std::uint16_t flush_half(std::uint16_t v) {
  return (v & ~sign_bit) < Format::smallest_normal ? v & sign_bit : v;
}

template <class Format>
std::uint16_t extreme(std::uint16_t a, std::uint16_t b, std::uint32_t mode, bool max) {
  const auto sign = static_cast<std::uint16_t>((a ^ b) & sign_bit);
  if ((mode & float_mode::xor_sign) != 0) {
    a &= 0x7FFF;
    b &= 0x7FFF;
  }
  const float x = Format::widen(a), y = Format::widen(b);
  std::uint16_t result;
  if (x != x || y != y) {
    if ((mode & float_mode::nan) != 0 || (x != x && y != y)) return half_nan;
    result = x != x ? b : a;
  } else if (x == y) {
    result = ((a & sign_bit) != 0) == max ? b : a;
  } else {
    result = (x < y) == max ? b : a;
  }
  if ((mode & float_mode::xor_sign) != 0)
    result = static_cast<std::uint16_t>((result & 0x7FFF) | sign);
  return result;
}

template <class Format, half_op Op>
std::uint16_t compute(std::uint16_t a, std::uint16_t b, std::uint16_t c, std::uint32_t mode) {
  if ((mode & float_mode::ftz) != 0) {
    a = flush_half<Format>(a);
    b = flush_half<Format>(b);
    c = flush_half<Format>(c);
  }
  const double x = Format::widen(a), y = Format::widen(b);
  std::uint16_t result;
  switch (Op) {
    case half_op::add:
      result = Format::round(fused_odd(x, 1.0, y));
      break;
    case half_op::subtract:
      result = Format::round(fused_odd(x, 1.0, -y));
      break;
    case half_op::multiply:
      result = Format::round(x * y);
      break;
    case half_op::fused:
      result = Format::round(fused_odd(x, y, Format::widen(c)));
      break;
    case half_op::minimum:
      result = extreme<Format>(a, b, mode, false);
      break;
    case half_op::maximum:
      result = extreme<Format>(a, b, mode, true);
      break;
    case half_op::negate:
      return x == x ? a ^ sign_bit : half_nan;
    case half_op::absolute:
      return x == x ? a & 0x7FFF : half_nan;
  }
  if ((mode & float_mode::ftz) != 0) result = flush_half<Format>(result);
  const float value = Format::widen(result);
  if ((mode & float_mode::saturate) != 0) result = Format::round(saturate(value));
  if ((mode & float_mode::relu) != 0 && value <= 0) result = 0;
  return result;
}

template <class Format, half_op Op>
void lanes_of(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte *a = x.in(i.o[1]), *b = x.in(i.o[2]), *c = x.in(i.o[3]);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const auto p = get<std::uint32_t>(a, l), q = get<std::uint32_t>(b, l),
               r = get<std::uint32_t>(c, l);
    std::uint32_t result = 0;
    for (std::uint32_t shift = 0; shift < i.count * 16u; shift += 16)
      result |= std::uint32_t{compute<Format, Op>(static_cast<std::uint16_t>(p >> shift),
                                                  static_cast<std::uint16_t>(q >> shift),
                                                  static_cast<std::uint16_t>(r >> shift), i.sub)}
                << shift;
    put(d, l, result);
  }
}

template <half_op Op, std::size_t Sources>
bool decode(builder& b, const form& f) {
  if (f.types.size() != 1 || f.operand_count() != Sources + 1) return false;
  handler run = nullptr;
  const type t = f.t();
  if (t == type::f16 || t == type::f16x2) run = lanes_of<half_format, Op>;
  if (t == type::bf16 || t == type::bf16x2) run = lanes_of<bfloat_format, Op>;
  if (run == nullptr) return false;
  const auto d = b.destination(f.operand(0), t);
  std::vector<std::uint32_t> uses;
  for (std::size_t n = 1; n <= Sources; ++n) uses.push_back(b.source(f.operand(n), t));
  instruction& i = b.emit(run, std::span(&d, 1), uses);
  i.count = t == type::f16x2 || t == type::bf16x2 ? 2 : 1;
  if (f.has("ftz")) i.sub |= float_mode::ftz;
  if (f.has("sat")) i.sub |= float_mode::saturate;
  if (f.has("relu")) i.sub |= float_mode::relu;
  if (f.has("NaN")) i.sub |= float_mode::nan;
  if (f.has("xorsign")) i.sub |= float_mode::xor_sign;
  return true;
}

constexpr decode_entry entries[] = {
    {"add", decode<half_op::add, 2>},      {"sub", decode<half_op::subtract, 2>},
    {"mul", decode<half_op::multiply, 2>}, {"fma", decode<half_op::fused, 3>},
    {"min", decode<half_op::minimum, 2>},  {"max", decode<half_op::maximum, 2>},
    {"neg", decode<half_op::negate, 1>},   {"abs", decode<half_op::absolute, 1>},
};

}  // namespace

decode_table half_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
