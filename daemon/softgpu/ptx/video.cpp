// SPDX-License-Identifier: Apache-2.0
// The video instructions: arithmetic on selected bytes and halves (vadd, ...) and on packed halves
// and bytes (vadd2, vadd4).
#include <algorithm>

#include "builder.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

enum class video_op : std::uint8_t {
  add,
  subtract,
  difference,
  minimum,
  maximum,
  average,
  shift_left,
  shift_right,
  multiply_add,
  set,
};
enum class set_comparison : std::uint8_t { eq, ne, lt, le, gt, ge };

// Packed into instruction::sub, low bits first.
struct video_mode {
  std::uint32_t signed_d : 1 = 0, signed_a : 1 = 0, signed_b : 1 = 0, saturate : 1 = 0;
  std::uint32_t accumulate : 1 = 0;  // .add: the sum of the parts goes onto c
  std::uint32_t parts : 3 = 1;       // 1, 2 or 4
  std::uint32_t mask : 4 = 0xF;      // parts of d that are written
  std::uint32_t comparison : 3 = 0;
  std::uint32_t second : 2 = 0;  // of scalar forms: 0 for none, or one of the below
  std::uint32_t clamp_shift : 1 = 0;
  std::uint32_t unused : 14 = 0;
};

constexpr std::uint32_t second_add = 1, second_min = 2, second_max = 3;

std::int64_t limit(std::int64_t v, std::uint32_t bits, bool is_signed_result) {
  const std::int64_t low = is_signed_result ? -(std::int64_t{1} << (bits - 1)) : 0;
  const std::int64_t high = (std::int64_t{1} << (is_signed_result ? bits - 1 : bits)) - 1;
  return std::clamp(v, low, high);
}

bool holds(set_comparison c, std::int64_t a, std::int64_t b) {
  switch (c) {
    case set_comparison::eq:
      return a == b;
    case set_comparison::ne:
      return a != b;
    case set_comparison::lt:
      return a < b;
    case set_comparison::le:
      return a <= b;
    case set_comparison::gt:
      return a > b;
    case set_comparison::ge:
      return a >= b;
  }
  return false;
}

std::int64_t compute(video_op op, std::int64_t a, std::int64_t b, const video_mode& mode) {
  switch (op) {
    case video_op::add:
      return a + b;
    case video_op::subtract:
      return a - b;
    case video_op::difference:
      return a < b ? b - a : a - b;
    case video_op::minimum:
      return std::min(a, b);
    case video_op::maximum:
      return std::max(a, b);
    case video_op::average:
      return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
    case video_op::shift_left: {
      const auto n = mode.clamp_shift != 0 ? std::min<std::int64_t>(b & 0xFFFFFFFF, 32) : b & 31;
      return n >= 32 ? 0 : static_cast<std::int64_t>(static_cast<std::uint32_t>(a) << n);
    }
    case video_op::shift_right: {
      const auto n = mode.clamp_shift != 0 ? std::min<std::int64_t>(b & 0xFFFFFFFF, 32) : b & 31;
      return a >> n;
    }
    case video_op::multiply_add:
      return a * b;
    case video_op::set:
      return holds(static_cast<set_comparison>(mode.comparison), a, b) ? 1 : 0;
  }
  return 0;
}

std::int64_t part_of(std::uint32_t word, std::uint32_t part, std::uint32_t bits,
                     bool is_signed_part) {
  const std::uint32_t shifted = bits == 32 ? word : word >> (part * bits);
  if (bits == 32)
    return is_signed_part ? std::int64_t{static_cast<std::int32_t>(word)} : std::int64_t{word};
  const std::uint32_t ones = (1u << bits) - 1;
  const auto value = static_cast<std::int64_t>(shifted & ones);
  return is_signed_part && (shifted >> (bits - 1) & 1) != 0 ? value - (std::int64_t{1} << bits)
                                                            : value;
}

// Packed forms.
template <video_op Op>
void packed(executor& x, const instruction& i, std::uint32_t lanes) {
  const auto mode = std::bit_cast<video_mode>(i.sub);
  const std::uint32_t bits = 32 / mode.parts;
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const auto a = get<std::uint32_t>(x.in(i.o[1]), l), b = get<std::uint32_t>(x.in(i.o[2]), l);
    auto d = get<std::uint32_t>(x.in(i.o[3]), l);
    std::uint32_t sum = d;
    for (std::uint32_t n = 0; n < mode.parts; ++n) {
      if ((mode.mask >> n & 1) == 0) continue;
      std::int64_t v = compute(Op, part_of(a, n, bits, mode.signed_a != 0),
                               part_of(b, n, bits, mode.signed_b != 0), mode);
      if (mode.saturate != 0) v = limit(v, bits, mode.signed_d != 0);
      sum += static_cast<std::uint32_t>(v);
      const std::uint32_t ones = (1u << bits) - 1;
      d = (d & ~(ones << (n * bits))) | (static_cast<std::uint32_t>(v) & ones) << (n * bits);
    }
    put(x.out(i.o[0]), l, mode.accumulate != 0 ? sum : d);
  }
}

// Scalar forms. Each operand's selected part sits in `immediate`, as selector_of has it: a's in the
// low 16 bits, b's above.
template <video_op Op>
void scalar(executor& x, const instruction& i, std::uint32_t lanes) {
  const auto mode = std::bit_cast<video_mode>(i.sub);
  const auto selected = [&](std::uint32_t word, std::uint32_t shift, bool is_signed_part) {
    const auto selector = static_cast<std::uint32_t>(i.immediate >> shift) & 0xFFFF;
    return part_of(word, selector & 7, selector >> 3, is_signed_part);
  };
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const auto a = get<std::uint32_t>(x.in(i.o[1]), l), b = get<std::uint32_t>(x.in(i.o[2]), l);
    const auto c = get<std::uint32_t>(x.in(i.o[3]), l);
    std::int64_t v =
        compute(Op, selected(a, 0, mode.signed_a != 0), selected(b, 16, mode.signed_b != 0), mode);
    const std::int64_t other =
        mode.signed_d != 0 ? std::int64_t{static_cast<std::int32_t>(c)} : std::int64_t{c};
    if (Op == video_op::multiply_add) v += other;
    if (mode.saturate != 0) v = limit(v, 32, mode.signed_d != 0);
    // The intermediate result is a number of d's type for what follows.
    if (mode.signed_d != 0)
      v = static_cast<std::int32_t>(v);
    else
      v = static_cast<std::uint32_t>(v);
    if (mode.second == second_add) v += other;
    if (mode.second == second_min) v = std::min(v, other);
    if (mode.second == second_max) v = std::max(v, other);
    put(x.out(i.o[0]), l, static_cast<std::uint32_t>(v));
  }
}

std::uint32_t source_word(builder& b, syntax::operand o) {
  o.component = {};
  return b.source(o, type::b32);
}

// .b0 .. .b3, .h0, .h1 or the whole word, as width << 3 | index.
std::optional<std::uint32_t> selector_of(std::string_view component) {
  if (component.empty()) return 32u << 3;
  if (component.size() != 2) return std::nullopt;
  const auto index = static_cast<std::uint32_t>(component[1] - '0');
  if (component[0] == 'b' && index < 4) return 8u << 3 | index;
  if (component[0] == 'h' && index < 2) return 16u << 3 | index;
  return std::nullopt;
}

video_mode mode_of(const form& f) {
  video_mode mode;
  if (f.types.size() >= 3) {
    mode.signed_d = is_signed(f.t(0));
    mode.signed_a = is_signed(f.t(1));
    mode.signed_b = is_signed(f.t(2));
  } else if (f.types.size() == 2) {
    mode.signed_a = is_signed(f.t(0));
    mode.signed_b = is_signed(f.t(1));
  }
  mode.saturate = f.has("sat");
  mode.clamp_shift = f.has("clamp");
  constexpr std::string_view names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (std::uint32_t n = 0; n < std::size(names); ++n)
    if (f.has(names[n])) mode.comparison = n & 7;
  return mode;
}

template <video_op Op, std::uint32_t Parts>
bool decode_packed(builder& b, const form& f) {
  if (f.operand_count() != 4 && f.operand_count() != 3) return false;
  video_mode mode = mode_of(f);
  mode.parts = Parts;
  mode.accumulate = f.has("add");
  const std::string_view mask = f.operand(0).component;
  if (!mask.empty()) {
    mode.mask = 0;
    for (const char c : mask.substr(1)) mode.mask |= 1u << (c - '0') & 0xF;
  }
  for (std::size_t n = 1; n <= 2; ++n) {
    // Other selections than the natural order are not known to be written by any compiler.
    const auto component = f.operand(n).component;
    if (!component.empty() && component != "b3210" && component != "h10") return false;
  }
  syntax::operand d = f.operand(0);
  d.component = {};
  const auto a = source_word(b, f.operand(1)), c = source_word(b, f.operand(2));
  const auto e = f.operand_count() > 3 ? source_word(b, f.operand(3)) : constant_tag;
  b.emit(packed<Op>, {b.destination(d, type::b32)}, {a, c, e}).sub =
      std::bit_cast<std::uint32_t>(mode);
  return true;
}

template <video_op Op>
bool decode_scalar(builder& b, const form& f) {
  if (f.operand_count() < 3) return false;
  video_mode mode = mode_of(f);
  const bool three = f.operand_count() > 3;
  if (Op != video_op::multiply_add && three) {
    mode.second = f.has("min") ? second_min : f.has("max") ? second_max : second_add;
    if (!f.has("min") && !f.has("max") && !f.has("add")) return false;
  }
  const auto left = selector_of(f.operand(1).component),
             right = selector_of(f.operand(2).component);
  if (!left || !right || !f.operand(0).component.empty()) return false;
  const auto a = source_word(b, f.operand(1)), c = source_word(b, f.operand(2));
  const auto e = three ? source_word(b, f.operand(3)) : constant_tag;
  instruction& i = b.emit(scalar<Op>, {b.destination(f.operand(0), type::b32)}, {a, c, e});
  i.sub = std::bit_cast<std::uint32_t>(mode);
  i.immediate = std::int64_t{*left} | std::int64_t{*right} << 16;
  return true;
}

#define GPUWIRE_PACKED(name, op)                \
  {name "2", decode_packed<video_op::op, 2>}, { \
    name "4", decode_packed<video_op::op, 4>    \
  }

constexpr decode_entry entries[] = {
    {"vadd", decode_scalar<video_op::add>},
    {"vsub", decode_scalar<video_op::subtract>},
    {"vabsdiff", decode_scalar<video_op::difference>},
    {"vmin", decode_scalar<video_op::minimum>},
    {"vmax", decode_scalar<video_op::maximum>},
    {"vshl", decode_scalar<video_op::shift_left>},
    {"vshr", decode_scalar<video_op::shift_right>},
    {"vmad", decode_scalar<video_op::multiply_add>},
    {"vset", decode_scalar<video_op::set>},
    GPUWIRE_PACKED("vadd", add),
    GPUWIRE_PACKED("vsub", subtract),
    GPUWIRE_PACKED("vavrg", average),
    GPUWIRE_PACKED("vabsdiff", difference),
    GPUWIRE_PACKED("vmin", minimum),
    GPUWIRE_PACKED("vmax", maximum),
    GPUWIRE_PACKED("vset", set),
};
#undef GPUWIRE_PACKED

}  // namespace

decode_table video_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
