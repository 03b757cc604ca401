// SPDX-License-Identifier: Apache-2.0
// mma and wmma.mma: D = A * B + C by a whole warp. Products are exact and summed in double
// precision, then rounded once; the hardware's order and width of its sums are not documented, so
// last bits may differ. Sparse, sub-byte and 8-bit floating-point forms are refused.
#include "matrix.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "float_math.hpp"
#include "staging.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

// Slots of the registers of each fragment.
constexpr std::uint32_t slot_a = 0, slot_b = 8, slot_c = 16, slot_d = 24;

// What one instruction multiplies, packed into its `immediate` and `sub`.
struct product {
  matrix_shape shape;
  bool opaque = false;    // wmma
  bool saturate = false;  // integers stop at their limits
  struct fragment {
    type element = type::f32;
    std::uint32_t registers = 0;
    std::uint32_t held() const { return registers * elements_per_register(element); }
  };
  fragment a, b, c, d;
};

std::int64_t pack(const product& p) {
  const std::uint32_t bytes[] = {
      p.shape.m,     p.shape.n,     p.shape.k,     (p.opaque ? 1u : 0u) | (p.saturate ? 2u : 0u),
      p.a.registers, p.b.registers, p.c.registers, p.d.registers};
  std::uint64_t result = 0;
  for (std::size_t n = 0; n < 8; ++n) result |= std::uint64_t{bytes[n]} << (8 * n);
  return static_cast<std::int64_t>(result);
}

std::uint32_t pack_types(const product& p) {
  const auto number = [](type t) { return static_cast<std::uint32_t>(t); };
  return number(p.a.element) | number(p.b.element) << 8 | number(p.c.element) << 16 |
         number(p.d.element) << 24;
}

product unpack(const instruction& i) {
  const auto byte = [&](std::uint32_t n) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(i.immediate) >> (8 * n) & 0xff);
  };
  const auto element = [&](std::uint32_t n) { return static_cast<type>(i.sub >> (8 * n) & 0xff); };
  product p;
  p.shape = {byte(0), byte(1), byte(2)};
  p.opaque = (byte(3) & 1) != 0;
  p.saturate = (byte(3) & 2) != 0;
  p.a = {element(0), byte(4)};
  p.b = {element(1), byte(5)};
  p.c = {element(2), byte(6)};
  p.d = {element(3), byte(7)};
  return p;
}

element_place place_of(const product& p, fragment_role role, const product::fragment& f,
                       std::uint32_t lane, std::uint32_t index) {
  return p.opaque ? wmma_place(role, p.shape, f.held(), lane, index)
                  : mma_place(role, p.shape, elements_per_register(f.element), lane, index);
}

double read_element(executor& x, const product::fragment& f, std::uint32_t slot, std::uint32_t lane,
                    std::uint32_t index) {
  const std::uint32_t packed = elements_per_register(f.element);
  const std::uint64_t value = staged(x, slot + index / packed, lane);
  const auto part = static_cast<std::uint32_t>(value >> (index % packed * 32 / packed));
  switch (f.element) {
    case type::f16:
      return double{from_half(static_cast<std::uint16_t>(part))};
    case type::bf16:
      return double{std::bit_cast<float>(part << 16)};
    case type::u8:
      return static_cast<std::uint8_t>(part);
    case type::s8:
      return static_cast<std::int8_t>(part);
    case type::s32:
      return static_cast<std::int32_t>(part);
    case type::tf32:  // the lower bits of the mantissa do not count
      return double{std::bit_cast<float>(part & 0xffffe000u)};
    case type::f64:
      return std::bit_cast<double>(value);
    default:
      return double{std::bit_cast<float>(part)};
  }
}

void write_element(executor& x, const product& p, std::uint32_t lane, std::uint32_t index,
                   double value) {
  std::uint64_t& whole = staged(x, slot_d + index / elements_per_register(p.d.element), lane);
  switch (p.d.element) {
    case type::f16: {
      const std::uint64_t half = to_half(double{static_cast<float>(value)});
      whole = index % 2 == 0 ? half : (whole & 0xffff) | half << 16;
      return;
    }
    case type::s32: {
      // All sums of 8-bit products are exact in double precision.
      const auto sum = static_cast<std::int64_t>(value);
      const auto limited = std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
      whole = static_cast<std::uint32_t>(p.saturate ? limited : sum);
      return;
    }
    case type::f64:
      whole = std::bit_cast<std::uint64_t>(value);
      return;
    default:
      whole = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
}

constexpr std::uint32_t outer_max = 32, inner_max = 32;
using matrix = std::array<std::array<double, inner_max>, outer_max>;

void collect(executor& x, const product& p, fragment_role role, const product::fragment& f,
             std::uint32_t slot, matrix& into) {
  for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
    for (std::uint32_t index = 0; index < f.held(); ++index) {
      const auto place = place_of(p, role, f, lane, index);
      into[place.outer][place.inner] = read_element(x, f, slot, lane, index);
    }
  }
}

void multiply(executor& x, const instruction& i, std::uint32_t lanes) {
  const product p = unpack(i);
  matrix a{}, b{};
  collect(x, p, fragment_role::a, p.a, slot_a, a);
  collect(x, p, fragment_role::b, p.b, slot_b, b);
  matrix sums{};
  collect(x, p, fragment_role::accumulator, p.c, slot_c, sums);
  for (std::uint32_t row = 0; row < p.shape.m; ++row) {
    for (std::uint32_t column = 0; column < p.shape.n; ++column) {
      double sum = 0;
      for (std::uint32_t k = 0; k < p.shape.k; ++k) sum += a[row][k] * b[column][k];
      sums[row][column] += sum;
    }
  }
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    for (std::uint32_t index = 0; index < p.d.held(); ++index) {
      const auto place = place_of(p, fragment_role::accumulator, p.d, lane, index);
      write_element(x, p, lane, index, sums[place.outer][place.inner]);
    }
  }
}

bool is_input(type t) {
  return t == type::f16 || t == type::bf16 || t == type::tf32 || t == type::u8 || t == type::s8 ||
         t == type::f64;
}
bool is_accumulator(type t) {
  return t == type::f16 || t == type::f32 || t == type::s32 || t == type::f64;
}

// The registers of a fragment of mma: exactly as many as the matrix needs. wmma holds f16 twice.
std::uint32_t register_count(const product& p, std::uint32_t elements, type t, bool input) {
  const std::uint32_t exact = elements / warp_lanes / elements_per_register(t);
  if (p.opaque && input && t == type::f16) return 8;
  return exact;
}

bool take_types(const form& f, product& p) {
  // wmma names the inputs only when they are not f16.
  if (p.opaque && f.types.size() == 2) {
    p.d.element = f.t(0);
    p.a.element = p.b.element = type::f16;
    p.c.element = f.t(1);
  } else if (f.types.size() == 4) {
    p.d.element = f.t(0);
    p.a.element = f.t(1);
    p.b.element = f.t(2);
    p.c.element = f.t(3);
  } else {
    return false;
  }
  const bool integers = p.a.element == type::u8 || p.a.element == type::s8;
  const bool other_integers = p.b.element == type::u8 || p.b.element == type::s8;
  return is_input(p.a.element) && is_accumulator(p.c.element) && is_accumulator(p.d.element) &&
         (integers ? other_integers : p.a.element == p.b.element) &&
         integers == (p.d.element == type::s32) && integers == (p.c.element == type::s32) &&
         (p.a.element == type::f64) == (p.d.element == type::f64);
}

bool decode_product(builder& b, const form& f, bool opaque) {
  const auto shape = find_matrix_shape(f);
  if (!shape || f.operand_count() != 4 || f.has("sp")) return false;
  product p;
  p.shape = *shape;
  p.opaque = opaque;
  p.saturate = f.has("satfinite");
  if (!take_types(f, p)) return false;
  const auto [m, n, k] = p.shape;
  if (m > outer_max || n > outer_max || k > inner_max) return false;
  if (!opaque && (n != 8 || (m != 8 && m != 16))) return false;
  // The layout of m8n8k4 with f16 is one of its own.
  if (!opaque && m == 8 && p.a.element == type::f16) return false;
  p.a.registers = register_count(p, m * k, p.a.element, true);
  p.b.registers = register_count(p, n * k, p.b.element, true);
  p.c.registers = register_count(p, m * n, p.c.element, false);
  p.d.registers = register_count(p, m * n, p.d.element, false);
  for (const auto* each : {&p.a, &p.b, &p.c, &p.d})
    if (each->registers == 0 || each->registers > 8) return false;
  const auto register_type = [](type t) {
    return t == type::f64 ? type::f64 : t == type::f32 ? type::f32 : type::b32;
  };
  const auto d = b.destinations(f.operand(0), register_type(p.d.element), p.d.registers);
  const auto bring = [&](std::size_t operand, const product::fragment& part, std::uint32_t slot) {
    const type t = register_type(part.element);
    stage(b, b.sources(f.operand(operand), t, part.registers), t, slot);
  };
  bring(1, p.a, slot_a);
  bring(2, p.b, slot_b);
  bring(3, p.c, slot_c);
  emit_warp_barrier(b);
  instruction& i = b.emit(multiply, {}, {}, flow::plain);
  i.immediate = pack(p);
  i.sub = pack_types(p);
  unstage(b, d, register_type(p.d.element), slot_d);
  return true;
}

bool decode_mma(builder& b, const form& f) {
  return decode_product(b, f, false);
}

bool decode_wmma(builder& b, const form& f) {
  return f.has("mma") && decode_product(b, f, true);
}

constexpr decode_entry entries[] = {{"mma", decode_mma}, {"wmma", decode_wmma}};

}  // namespace

std::optional<matrix_shape> find_matrix_shape(const form& f) {
  for (const auto word : f.words) {
    if (word.size() < 6 || word[0] != 'm') continue;
    const auto n = word.find('n'), k = word.find('k');
    if (n == std::string_view::npos || k == std::string_view::npos || k < n) continue;
    matrix_shape shape;
    const auto number = [&](std::size_t first, std::size_t last, std::uint32_t& into) {
      const auto read = std::from_chars(word.data() + first, word.data() + last, into);
      return read.ec == std::errc{} && read.ptr == word.data() + last && into > 0 && into <= 256;
    };
    if (number(1, n, shape.m) && number(n + 1, k, shape.n) && number(k + 1, word.size(), shape.k))
      return shape;
  }
  return std::nullopt;
}

decode_table matrix_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
