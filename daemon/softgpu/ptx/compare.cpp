// SPDX-License-Identifier: Apache-2.0
// Comparison and selection, and logic on predicates.
#include "float_math.hpp"
#include "lanes.hpp"
#include "select.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

enum class comparison : std::uint8_t {
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  equ,
  neu,
  ltu,
  leu,
  gtu,
  geu,
  num,
  nan
};

template <comparison C>
struct compare {
  template <class T>
  bool operator()(T a, T b) const {
    const bool unordered = a != a || b != b;
    switch (C) {
      case comparison::eq:
        return a == b;
      case comparison::ne:
        return a != b && !unordered;
      case comparison::lt:
        return a < b;
      case comparison::le:
        return a <= b;
      case comparison::gt:
        return a > b;
      case comparison::ge:
        return a >= b;
      case comparison::equ:
        return a == b || unordered;
      case comparison::neu:
        return a != b;
      case comparison::ltu:
        return !(a >= b);
      case comparison::leu:
        return !(a > b);
      case comparison::gtu:
        return !(a <= b);
      case comparison::geu:
        return !(a < b);
      case comparison::num:
        return !unordered;
      case comparison::nan:
        return unordered;
    }
  }
};

enum : std::uint32_t {
  combine_none,
  combine_and,
  combine_or,
  combine_xor,
  combine_mask = 3,
  flush_inputs = 4
};

std::uint32_t combine(std::uint32_t kind, std::uint32_t a, std::uint32_t b) {
  switch (kind & combine_mask) {
    case combine_and:
      return a & b;
    case combine_or:
      return a | b;
    case combine_xor:
      return a ^ b;
    default:
      return a;
  }
}

struct half_value {
  std::uint16_t bits;
  static float widen(half_value v) { return from_half(v.bits); }
};
struct bfloat_value {
  std::uint16_t bits;
  static float widen(bfloat_value v) { return from_bfloat(v.bits); }
};

template <class Compare, class T>
std::uint32_t compare_lanes(const std::byte* a, const std::byte* b, std::uint32_t lanes, bool ftz) {
  std::uint32_t result = 0;
  if constexpr (std::is_floating_point_v<T>) {
    if (ftz) {
      for (; lanes != 0; lanes &= lanes - 1) {
        const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
        result |= static_cast<std::uint32_t>(Compare{}(flush(get<T>(a, l)), flush(get<T>(b, l))))
                  << l;
      }
      return result;
    }
  }
  if constexpr (std::is_arithmetic_v<T>) {
    for (std::uint32_t l = 0; l < warp_lanes; ++l)
      result |= static_cast<std::uint32_t>(Compare{}(get<T>(a, l), get<T>(b, l))) << l;
  } else {
    for (std::uint32_t l = 0; l < warp_lanes; ++l)
      result |=
          static_cast<std::uint32_t>(Compare{}(T::widen(get<T>(a, l)), T::widen(get<T>(b, l))))
          << l;
  }
  return result;
}

// setp: o = p, q, a, b, c.
template <class Compare, class T>
void set_predicates(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::uint32_t found =
      compare_lanes<Compare, T>(x.in(i.o[2]), x.in(i.o[3]), lanes, (i.sub & flush_inputs) != 0);
  const std::uint32_t other = x.predicate(i.o[4]);
  if (i.extra != 0) x.set_predicate(i.o[1], lanes, combine(i.sub, ~found, other));
  x.set_predicate(i.o[0], lanes, combine(i.sub, found, other));
}

// set: o = d, a, b, c; true is all ones, or 1.0 (`immediate`).
template <class Compare, class T>
void set_value(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::uint32_t found = combine(
      i.sub,
      compare_lanes<Compare, T>(x.in(i.o[1]), x.in(i.o[2]), lanes, (i.sub & flush_inputs) != 0),
      x.predicate(i.o[3]));
  std::byte* d = x.out(i.o[0]);
  const auto yes = static_cast<std::uint32_t>(i.immediate);
  for_lanes(lanes,
            [=](std::uint32_t l) { put<std::uint32_t>(d, l, (found >> l & 1) != 0 ? yes : 0); });
}

template <class Compare, bool Set>
handler select_compare(type t) {
  switch (t) {
#define GPUWIRE_CASE(name, T) \
  case type::name:            \
    return Set ? handler{set_value<Compare, T>} : handler{set_predicates<Compare, T>};
    GPUWIRE_CASE(b16, std::uint16_t)
    GPUWIRE_CASE(b32, std::uint32_t)
    GPUWIRE_CASE(b64, std::uint64_t)
    GPUWIRE_CASE(u16, std::uint16_t)
    GPUWIRE_CASE(u32, std::uint32_t)
    GPUWIRE_CASE(u64, std::uint64_t)
    GPUWIRE_CASE(s16, std::int16_t)
    GPUWIRE_CASE(s32, std::int32_t)
    GPUWIRE_CASE(s64, std::int64_t)
    GPUWIRE_CASE(f32, float)
    GPUWIRE_CASE(f64, double)
    GPUWIRE_CASE(f16, half_value)
    GPUWIRE_CASE(bf16, bfloat_value)
#undef GPUWIRE_CASE
    default:
      return nullptr;
  }
}

template <bool Set>
handler find_compare(const form& f, type t) {
  for (const auto w : f.words) {
    if (w == "eq") return select_compare<compare<comparison::eq>, Set>(t);
    if (w == "ne") return select_compare<compare<comparison::ne>, Set>(t);
    if (w == "lt" || w == "lo") return select_compare<compare<comparison::lt>, Set>(t);
    if (w == "le" || w == "ls") return select_compare<compare<comparison::le>, Set>(t);
    if (w == "gt" || w == "hi") return select_compare<compare<comparison::gt>, Set>(t);
    if (w == "ge" || w == "hs") return select_compare<compare<comparison::ge>, Set>(t);
    if (w == "equ") return select_compare<compare<comparison::equ>, Set>(t);
    if (w == "neu") return select_compare<compare<comparison::neu>, Set>(t);
    if (w == "ltu") return select_compare<compare<comparison::ltu>, Set>(t);
    if (w == "leu") return select_compare<compare<comparison::leu>, Set>(t);
    if (w == "gtu") return select_compare<compare<comparison::gtu>, Set>(t);
    if (w == "geu") return select_compare<compare<comparison::geu>, Set>(t);
    if (w == "num") return select_compare<compare<comparison::num>, Set>(t);
    if (w == "nan") return select_compare<compare<comparison::nan>, Set>(t);
  }
  return nullptr;
}

std::uint32_t flags_of(const form& f) {
  std::uint32_t flags = 0;
  if (f.has("ftz")) flags |= flush_inputs;
  if (f.has("and")) flags |= combine_and;
  if (f.has("or")) flags |= combine_or;
  if (f.has("xor")) flags |= combine_xor;
  return flags;
}

bool is_pair_type(type t) {
  return t == type::f16x2 || t == type::bf16x2;
}

// setp of two halves: p takes the low half, q the high one.
bool decode_set_pair(builder& b, const form& f) {
  const bool half = f.t() == type::f16x2;
  const handler run = find_compare<false>(f, half ? type::f16 : type::bf16);
  const auto& targets = f.operand(0);
  if (run == nullptr || targets.kind != syntax::operand::form::pair) return false;
  const auto other = f.operand_count() > 3 ? b.predicate_source(f.operand(3)) : constant_tag;
  const auto a = b.source(f.operand(1), f.t()), c = b.source(f.operand(2), f.t());
  const handler shift = [](executor& x, const instruction& i, std::uint32_t lanes) {
    std::byte* d = x.out(i.o[0]);
    const std::byte* from = x.in(i.o[1]);
    for_lanes(lanes, [=](std::uint32_t l) { put(d, l, get<std::uint32_t>(from, l) >> 16); });
  };
  for (std::size_t n = 0; n < 2; ++n) {
    std::uint32_t left = a, right = c;
    if (n == 1) {
      left = b.temporary(type::b32);
      right = b.temporary(type::b32);
      b.emit(shift, {left}, {a});
      b.emit(shift, {right}, {c});
    }
    b.emit(run, {b.destination(targets.items[n], type::pred), b.temporary(type::pred)},
           {left, right, other})
        .sub = flags_of(f);
  }
  return true;
}

bool decode_set_predicate(builder& b, const form& f) {
  if (is_pair_type(f.t())) return decode_set_pair(b, f);
  const handler run = find_compare<false>(f, f.t());
  if (run == nullptr || f.operand_count() < 3) return false;
  const auto& first = f.operand(0);
  const bool pair = first.kind == syntax::operand::form::pair;
  const auto p = b.destination(pair ? first.items[0] : first, type::pred);
  const auto q = pair ? b.destination(first.items[1], type::pred) : b.temporary(type::pred);
  const auto a = b.source(f.operand(1), f.t()), c = b.source(f.operand(2), f.t());
  const auto other = f.operand_count() > 3 ? b.predicate_source(f.operand(3)) : constant_tag;
  instruction& i = b.emit(run, {p, q}, {a, c, other});
  i.sub = flags_of(f);
  i.extra = pair ? 1 : 0;
  return true;
}

// set of two halves: each half of d is all ones or 1.0.
template <class T>
void set_pair_value(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte *a = x.in(i.o[1]), *b = x.in(i.o[2]);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    std::uint32_t result = 0;
    for (std::uint32_t shift : {0u, 16u}) {
      const float p = T::widen({static_cast<std::uint16_t>(get<std::uint32_t>(a, l) >> shift)});
      const float q = T::widen({static_cast<std::uint16_t>(get<std::uint32_t>(b, l) >> shift)});
      const bool unordered = p != p || q != q;
      bool yes = false;
      switch (static_cast<comparison>(i.extra)) {
        case comparison::eq:
          yes = p == q;
          break;
        case comparison::ne:
          yes = p != q && !unordered;
          break;
        case comparison::lt:
          yes = p < q;
          break;
        case comparison::le:
          yes = p <= q;
          break;
        case comparison::gt:
          yes = p > q;
          break;
        case comparison::ge:
          yes = p >= q;
          break;
        case comparison::equ:
          yes = p == q || unordered;
          break;
        case comparison::neu:
          yes = p != q;
          break;
        case comparison::ltu:
          yes = !(p >= q);
          break;
        case comparison::leu:
          yes = !(p > q);
          break;
        case comparison::gtu:
          yes = !(p <= q);
          break;
        case comparison::geu:
          yes = !(p < q);
          break;
        case comparison::num:
          yes = !unordered;
          break;
        case comparison::nan:
          yes = unordered;
          break;
      }
      if (yes) result |= static_cast<std::uint32_t>(i.immediate) << shift;
    }
    put(d, l, result);
  }
}

bool decode_set_pair_value(builder& b, const form& f) {
  constexpr std::string_view names[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                        "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  const bool half = f.t(1) == type::f16x2;
  for (std::uint8_t n = 0; n < std::size(names); ++n) {
    if (!f.has(names[n]) || f.operand_count() != 3) continue;
    instruction& i = b.emit(half ? set_pair_value<half_value> : set_pair_value<bfloat_value>,
                            {b.destination(f.operand(0), type::b32)},
                            {b.source(f.operand(1), type::b32), b.source(f.operand(2), type::b32)});
    i.extra = n;
    i.immediate = f.t(0) == type::f16x2 ? 0x3C00 : f.t(0) == type::bf16x2 ? 0x3F80 : 0xFFFF;
    return true;
  }
  return false;
}

bool decode_set(builder& b, const form& f) {
  if (is_pair_type(f.t(1))) return decode_set_pair_value(b, f);
  const handler run = find_compare<true>(f, f.t(1));
  if (run == nullptr || f.operand_count() < 3) return false;
  const type d = f.t(0);
  const auto other = f.operand_count() > 3 ? b.predicate_source(f.operand(3)) : constant_tag;
  instruction& i = b.emit(run, {b.destination(f.operand(0), d)},
                          {b.source(f.operand(1), f.t(1)), b.source(f.operand(2), f.t(1)), other});
  i.sub = flags_of(f);
  i.immediate = d == type::f32    ? 0x3F80'0000
                : d == type::f16  ? 0x3C00
                : d == type::bf16 ? 0x3F80
                                  : 0xFFFF'FFFF;
  return bytes_of(d) <= 4;
}

template <class T>
struct select_of {
  static void select(executor& x, const instruction& i, std::uint32_t lanes) {
    std::byte* d = x.out(i.o[0]);
    const std::byte *a = x.in(i.o[1]), *b = x.in(i.o[2]);
    const std::uint32_t choice = x.predicate(i.o[3]);
    for_lanes(lanes, [=](std::uint32_t l) {
      const T yes = get<T>(a, l), no = get<T>(b, l);
      put<T>(d, l, (choice >> l & 1) != 0 ? yes : no);
    });
  }
  static constexpr handler run = select;
};

bool decode_select(builder& b, const form& f) {
  const handler run = select_bits<select_of>(f.t());
  if (run == nullptr) return false;
  b.emit(run, {b.destination(f.operand(0), f.t())},
         {b.source(f.operand(1), f.t()), b.source(f.operand(2), f.t()),
          b.predicate_source(f.operand(3))});
  return true;
}

// slct: a when c is not negative; a NaN selects b.
template <class C>
struct choose_by {
  template <class T>
  struct of {
    struct op {
      T operator()(T a, T b, C c) const { return c >= 0 ? a : b; }
    };
    static constexpr handler run = ternary<op, T, T, T, C>;
  };
};
bool decode_choose(builder& b, const form& f) {
  const handler run = f.t(1) == type::f32 ? select_bits<choose_by<float>::of>(f.t(0))
                                          : select_bits<choose_by<std::int32_t>::of>(f.t(0));
  if (run == nullptr) return false;
  b.emit(run, {b.destination(f.operand(0), f.t(0))},
         {b.source(f.operand(1), f.t(0)), b.source(f.operand(2), f.t(0)),
          b.source(f.operand(3), f.t(1))});
  return true;
}

enum class logic : std::uint8_t { conjunction, disjunction, exclusive, inversion, copy };

template <logic L>
void predicate_logic(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::uint32_t a = x.predicate(i.o[1]), b = x.predicate(i.o[2]);
  std::uint32_t v = a;
  if (L == logic::conjunction) v = a & b;
  if (L == logic::disjunction) v = a | b;
  if (L == logic::exclusive) v = a ^ b;
  if (L == logic::inversion) v = ~a;
  x.set_predicate(i.o[0], lanes, v);
}

template <logic L>
bool decode_logic(builder& b, const form& f) {
  if (f.types.empty() || f.t() != type::pred) return false;
  const bool two = L != logic::inversion && L != logic::copy;
  const auto a = b.predicate_source(f.operand(1));
  const auto c = two ? b.predicate_source(f.operand(2)) : constant_tag;
  b.emit(predicate_logic<L>, {b.destination(f.operand(0), type::pred)}, {a, c});
  return true;
}

constexpr decode_entry entries[] = {
    {"setp", decode_set_predicate},
    {"set", decode_set},
    {"selp", decode_select},
    {"slct", decode_choose},
    {"and", decode_logic<logic::conjunction>},
    {"or", decode_logic<logic::disjunction>},
    {"xor", decode_logic<logic::exclusive>},
    {"not", decode_logic<logic::inversion>},
    {"mov", decode_logic<logic::copy>},
};

}  // namespace

handler predicate_inversion() {
  return predicate_logic<logic::inversion>;
}

decode_table compare_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
