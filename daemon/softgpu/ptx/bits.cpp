// SPDX-License-Identifier: Apache-2.0
// Logic, shifts and bit fields.
#include <algorithm>
#include <bit>

#include "builder.hpp"
#include "lanes.hpp"
#include "select.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

struct and_op {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct or_op {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct xor_op {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct not_op {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct is_zero_op {
  template <class T>
  T operator()(T a) const {
    return a == 0 ? 1 : 0;
  }
};
struct shift_left_op {
  template <class T>
  T operator()(T a, std::uint32_t n) const {
    return n >= sizeof(T) * 8 ? T{0} : static_cast<T>(a << n);
  }
};
// Amounts beyond the width shift everything out: zero, or the sign.
struct shift_right_op {
  template <class T>
  T operator()(T a, std::uint32_t n) const {
    constexpr std::uint32_t width = sizeof(T) * 8;
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> std::min(n, width - 1));
    return n >= width ? T{0} : static_cast<T>(a >> n);
  }
};

template <bool Left, bool Clamp>
struct funnel_op {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t c) const {
    const std::uint32_t n = Clamp ? std::min(c, 32u) : c & 31;
    const std::uint64_t both = std::uint64_t{b} << 32 | a;
    return static_cast<std::uint32_t>(Left ? (both << n) >> 32 : both >> n);
  }
};

struct reverse_op {
  template <class T>
  T operator()(T v) const {
    std::uint64_t r = v;
    r = (r >> 1 & 0x5555555555555555) | (r & 0x5555555555555555) << 1;
    r = (r >> 2 & 0x3333333333333333) | (r & 0x3333333333333333) << 2;
    r = (r >> 4 & 0x0F0F0F0F0F0F0F0F) | (r & 0x0F0F0F0F0F0F0F0F) << 4;
    return static_cast<T>(__builtin_bswap64(r) >> (64 - sizeof(T) * 8));
  }
};
struct count_ones_op {
  template <class T>
  std::uint32_t operator()(T v) const {
    return static_cast<std::uint32_t>(std::popcount(v));
  }
};
struct leading_zeros_op {
  template <class T>
  std::uint32_t operator()(T v) const {
    return static_cast<std::uint32_t>(std::countl_zero(v));
  }
};
// Position of the most significant bit that is not a sign bit; all ones when there is none.
template <bool ShiftAmount>
struct find_leading_op {
  template <class T>
  std::uint32_t operator()(T value) const {
    using u = unsigned_of<sizeof(T)>;
    u v = static_cast<u>(value);
    if constexpr (std::is_signed_v<T>)
      if (value < 0) v = static_cast<u>(~v);
    if (v == 0) return ~0u;
    const auto zeros = static_cast<std::uint32_t>(std::countl_zero(v));
    return ShiftAmount ? zeros : static_cast<std::uint32_t>(sizeof(T) * 8 - 1) - zeros;
  }
};

struct extract_op {
  template <class T>
  T operator()(T value, std::uint32_t position, std::uint32_t length) const {
    constexpr std::uint32_t width = sizeof(T) * 8;
    position &= 0xFF;
    length &= 0xFF;
    if (length == 0) return 0;
    using u = unsigned_of<sizeof(T)>;
    const std::uint32_t end = std::min(position + length, width);
    const u all = static_cast<u>(value);
    const u field = position < width ? static_cast<u>(all >> position) : u{0};
    const std::uint32_t kept = position < end ? end - position : 0;
    const u mask = kept >= width ? static_cast<u>(~u{0}) : static_cast<u>((u{1} << kept) - 1);
    u result = static_cast<u>(field & mask);
    if constexpr (std::is_signed_v<T>) {
      const bool sign = (all >> (end - 1) & 1) != 0;
      if (sign) result = static_cast<u>(result | ~mask);
    }
    return static_cast<T>(result);
  }
};

template <class T>
void insert(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte *a = x.in(i.o[1]), *b = x.in(i.o[2]), *c = x.in(i.o[3]), *e = x.in(i.o[4]);
  for_lanes(lanes, [=](std::uint32_t l) {
    constexpr std::uint32_t width = sizeof(T) * 8;
    const std::uint32_t position = get<std::uint32_t>(c, l) & 0xFF;
    const std::uint32_t length = get<std::uint32_t>(e, l) & 0xFF;
    const T base = get<T>(b, l);
    if (length == 0 || position >= width) return put<T>(d, l, base);
    const T ones = length >= width ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T mask = static_cast<T>(ones << position);
    put<T>(d, l,
           static_cast<T>((base & ~mask) | (static_cast<T>(get<T>(a, l) << position) & mask)));
  });
}

std::uint32_t select_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (std::uint32_t n = 0; n < 4; ++n) {
    const std::uint32_t s = selector >> (n * 4) & 0xF;
    auto byte = static_cast<std::uint32_t>(both >> ((s & 7) * 8)) & 0xFF;
    if ((s & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
    result |= byte << (n * 8);
  }
  return result;
}
struct permute_op {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t c) const {
    return select_bytes(a, b, c & 0xFFFF);
  }
};
// The named modes of prmt pick their selectors by the low bits of c.
template <const std::uint16_t (&Selectors)[4]>
struct permute_mode_op {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t c) const {
    return select_bytes(a, b, Selectors[c & 3]);
  }
};
constexpr std::uint16_t forward_4[4] = {0x3210, 0x4321, 0x5432, 0x6543};
constexpr std::uint16_t backward_4[4] = {0x5670, 0x6701, 0x7012, 0x0123};
constexpr std::uint16_t replicate_8[4] = {0x0000, 0x1111, 0x2222, 0x3333};
constexpr std::uint16_t edge_left[4] = {0x3210, 0x3211, 0x3222, 0x3333};
constexpr std::uint16_t edge_right[4] = {0x0000, 0x1110, 0x2210, 0x3210};
constexpr std::uint16_t replicate_16[4] = {0x1010, 0x3232, 0x1010, 0x3232};

void logic_3(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte *a = x.in(i.o[1]), *b = x.in(i.o[2]), *c = x.in(i.o[3]);
  const std::uint32_t table = i.sub;
  for_lanes(lanes, [=](std::uint32_t l) {
    const auto p = get<std::uint32_t>(a, l), q = get<std::uint32_t>(b, l),
               r = get<std::uint32_t>(c, l);
    std::uint32_t result = 0;
    for (std::uint32_t n = 0; n < 8; ++n) {
      const std::uint32_t keep = 0u - (table >> n & 1);
      result |= keep & ((n & 4) != 0 ? p : ~p) & ((n & 2) != 0 ? q : ~q) & ((n & 1) != 0 ? r : ~r);
    }
    put(d, l, result);
  });
}

// fns: the position of the n-th set bit from `base` on, upwards or downwards; all ones when there
// is none.
struct find_nth_op {
  std::uint32_t operator()(std::uint32_t mask, std::uint32_t base, std::int32_t offset) const {
    if (offset == 0) return base < 32 && (mask >> base & 1) != 0 ? base : ~0u;
    const std::int32_t step = offset > 0 ? 1 : -1;
    std::int32_t left = offset > 0 ? offset : -offset;
    for (auto at = static_cast<std::int32_t>(base); at >= 0 && at < 32; at += step)
      if ((mask >> at & 1) != 0 && --left == 0) return static_cast<std::uint32_t>(at);
    return ~0u;
  }
};

template <bool Clamp>
struct mask_op {
  std::uint32_t operator()(std::uint32_t position, std::uint32_t length) const {
    if (!Clamp) {
      position &= 31;
      length &= 31;
    }
    if (position >= 32 || length == 0) return 0;
    const std::uint32_t ones = length >= 32 ? ~0u : (1u << length) - 1;
    return ones << position;
  }
};

template <class T, bool Clamp>
struct sign_extend_op {
  T operator()(T value, std::uint32_t width) const {
    if (!Clamp) width &= 31;
    if (width >= 32) return value;
    if (width == 0) return 0;
    const auto shifted = static_cast<T>(static_cast<std::uint32_t>(value) << (32 - width));
    return static_cast<T>(shifted >> (32 - width));
  }
};

template <class Op>
struct shift_of {
  template <class T>
  struct of {
    static constexpr handler run = binary<Op, T, T, std::uint32_t>;
  };
};
template <class Op>
struct count_of {
  template <class T>
  struct of {
    static constexpr handler run = unary<Op, std::uint32_t, T>;
  };
};
template <class T>
struct extract_of {
  static constexpr handler run = ternary<extract_op, T, T, std::uint32_t, std::uint32_t>;
};

bool emit(builder& b, const form& f, handler run, type d, std::initializer_list<type> sources) {
  if (run == nullptr || f.operand_count() != sources.size() + 1) return false;
  const auto destination = b.destination(f.operand(0), d);
  std::vector<std::uint32_t> uses;
  for (const type t : sources) uses.push_back(b.source(f.operand(uses.size() + 1), t));
  b.emit(run, std::span(&destination, 1), uses);
  return true;
}

template <class Op>
bool decode_logic(builder& b, const form& f) {
  if (f.t() == type::pred) return false;
  return emit(b, f, select_bits<binary_of<Op>::template of>(f.t()), f.t(), {f.t(), f.t()});
}
template <class Op>
bool decode_unary(builder& b, const form& f) {
  if (f.t() == type::pred) return false;
  return emit(b, f, select_bits<unary_of<Op>::template of>(f.t()), f.t(), {f.t()});
}
bool decode_shift_left(builder& b, const form& f) {
  return emit(b, f, select_bits<shift_of<shift_left_op>::of>(f.t()), f.t(), {f.t(), type::u32});
}
bool decode_shift_right(builder& b, const form& f) {
  return emit(b, f, select_integer<shift_of<shift_right_op>::of>(f.t()), f.t(), {f.t(), type::u32});
}
bool decode_funnel(builder& b, const form& f) {
  const bool clamp = f.has("clamp");
  using u = std::uint32_t;
  const handler run =
      f.has("l")
          ? (clamp ? ternary<funnel_op<true, true>, u> : ternary<funnel_op<true, false>, u>)
          : (clamp ? ternary<funnel_op<false, true>, u> : ternary<funnel_op<false, false>, u>);
  return emit(b, f, run, type::b32, {type::b32, type::b32, type::u32});
}
template <class Op>
bool decode_count(builder& b, const form& f) {
  return emit(b, f, select_bits<count_of<Op>::template of>(f.t()), type::u32, {f.t()});
}
bool decode_find_leading(builder& b, const form& f) {
  return emit(b, f,
              f.has("shiftamt") ? select_integer<count_of<find_leading_op<true>>::of>(f.t())
                                : select_integer<count_of<find_leading_op<false>>::of>(f.t()),
              type::u32, {f.t()});
}
bool decode_extract(builder& b, const form& f) {
  return emit(b, f, select_integer<extract_of>(f.t()), f.t(), {f.t(), type::u32, type::u32});
}
bool decode_insert(builder& b, const form& f) {
  const handler run = bytes_of(f.t()) == 4   ? insert<std::uint32_t>
                      : bytes_of(f.t()) == 8 ? insert<std::uint64_t>
                                             : nullptr;
  return emit(b, f, run, f.t(), {f.t(), f.t(), type::u32, type::u32});
}
bool decode_permute(builder& b, const form& f) {
  using u = std::uint32_t;
  handler run = ternary<permute_op, u>;
  if (f.has("f4e")) run = ternary<permute_mode_op<forward_4>, u>;
  if (f.has("b4e")) run = ternary<permute_mode_op<backward_4>, u>;
  if (f.has("rc8")) run = ternary<permute_mode_op<replicate_8>, u>;
  if (f.has("ecl")) run = ternary<permute_mode_op<edge_left>, u>;
  if (f.has("ecr")) run = ternary<permute_mode_op<edge_right>, u>;
  if (f.has("rc16")) run = ternary<permute_mode_op<replicate_16>, u>;
  return emit(b, f, run, type::b32, {type::b32, type::b32, type::b32});
}
bool decode_logic_3(builder& b, const form& f) {
  if (f.operand_count() != 5 || !b.is_immediate(f.operand(4))) return false;
  b.emit(logic_3, {b.destination(f.operand(0), type::b32)},
         {b.source(f.operand(1), type::b32), b.source(f.operand(2), type::b32),
          b.source(f.operand(3), type::b32)})
      .sub = static_cast<std::uint32_t>(f.operand(4).bits) & 0xFF;
  return true;
}
bool decode_find_nth(builder& b, const form& f) {
  return emit(b, f, ternary<find_nth_op, std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t>,
              type::b32, {type::b32, type::b32, type::s32});
}
bool decode_mask(builder& b, const form& f) {
  return emit(
      b, f,
      f.has("clamp") ? binary<mask_op<true>, std::uint32_t> : binary<mask_op<false>, std::uint32_t>,
      type::b32, {type::u32, type::u32});
}
bool decode_sign_extend(builder& b, const form& f) {
  const bool clamp = f.has("clamp");
  using s = std::int32_t;
  using u = std::uint32_t;
  const handler run =
      is_signed(f.t())
          ? (clamp ? binary<sign_extend_op<s, true>, s, s, u>
                   : binary<sign_extend_op<s, false>, s, s, u>)
          : (clamp ? binary<sign_extend_op<u, true>, u> : binary<sign_extend_op<u, false>, u>);
  return emit(b, f, run, f.t(), {f.t(), type::u32});
}

constexpr decode_entry entries[] = {
    {"and", decode_logic<and_op>},
    {"or", decode_logic<or_op>},
    {"xor", decode_logic<xor_op>},
    {"not", decode_unary<not_op>},
    {"cnot", decode_unary<is_zero_op>},
    {"shl", decode_shift_left},
    {"shr", decode_shift_right},
    {"shf", decode_funnel},
    {"brev", decode_unary<reverse_op>},
    {"popc", decode_count<count_ones_op>},
    {"clz", decode_count<leading_zeros_op>},
    {"bfind", decode_find_leading},
    {"bfe", decode_extract},
    {"bfi", decode_insert},
    {"prmt", decode_permute},
    {"lop3", decode_logic_3},
    {"fns", decode_find_nth},
    {"bmsk", decode_mask},
    {"szext", decode_sign_extend},
};

}  // namespace

decode_table bit_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
