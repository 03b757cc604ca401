// SPDX-License-Identifier: Apache-2.0
// Extended-precision integers (add.cc and its kin, with the carry in the warp) and the dot products
// dp2a and dp4a.
#include "builder.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

enum : std::uint32_t { reads_carry = 1, writes_carry = 2, subtracts = 4, high_half = 8 };

// d = (product or a) + b + carry. Subtraction adds the complement, so the carry is set when nothing
// is borrowed; code that reads it with addc after subc relies on that.
template <class T, class Wide>
T extended(T left, T right, bool carry_in, bool subtract, bool& carry_out) {
  if (subtract) right = static_cast<T>(~right);
  const Wide sum = Wide{left} + Wide{right} + Wide{carry_in};
  carry_out = (sum >> (sizeof(T) * 8) & 1) != 0;
  return static_cast<T>(sum);
}

template <class T, class Wide, bool Product>
void carry_chain(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::byte* a = x.in(i.o[1]);
  const std::byte* b = x.in(i.o[2]);
  const std::byte* c = x.in(i.o[3]);
  std::byte* d = x.out(i.o[0]);
  std::uint32_t carries = x.warp_->carry;
  for_lanes(lanes, [&](std::uint32_t l) {
    T left = get<T>(a, l);
    T right = get<T>(b, l);
    if constexpr (Product) {
      const Wide product = Wide{left} * Wide{right};
      left = static_cast<T>((i.sub & high_half) != 0 ? product >> (sizeof(T) * 8) : product);
      right = get<T>(c, l);
    }
    const bool carry_in =
        (i.sub & reads_carry) != 0 ? (carries >> l & 1) != 0 : (i.sub & subtracts) != 0;
    bool carry_out = false;
    put<T>(d, l, extended<T, Wide>(left, right, carry_in, (i.sub & subtracts) != 0, carry_out));
    if ((i.sub & writes_carry) != 0)
      carries = (carries & ~(1u << l)) | (static_cast<std::uint32_t>(carry_out) << l);
  });
  x.warp_->carry = carries;
}

// mad.hi.cc of signed numbers needs the signed high half; the sum's carry is the same.
void carry_chain_signed_high(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::byte* a = x.in(i.o[1]);
  const std::byte* b = x.in(i.o[2]);
  const std::byte* c = x.in(i.o[3]);
  std::byte* d = x.out(i.o[0]);
  std::uint32_t carries = x.warp_->carry;
  for_lanes(lanes, [&](std::uint32_t l) {
    const std::int64_t product =
        std::int64_t{get<std::int32_t>(a, l)} * std::int64_t{get<std::int32_t>(b, l)};
    const bool carry_in = (i.sub & reads_carry) != 0 && (carries >> l & 1) != 0;
    bool carry_out = false;
    put(d, l,
        extended<std::uint32_t, std::uint64_t>(static_cast<std::uint32_t>(product >> 32),
                                               get<std::uint32_t>(c, l), carry_in, false,
                                               carry_out));
    if ((i.sub & writes_carry) != 0)
      carries = (carries & ~(1u << l)) | (static_cast<std::uint32_t>(carry_out) << l);
  });
  x.warp_->carry = carries;
}

template <bool Product>
handler select_chain(type t) {
  if (bytes_of(t) == 4) return carry_chain<std::uint32_t, std::uint64_t, Product>;
  if (bytes_of(t) == 8) return carry_chain<std::uint64_t, unsigned __int128, Product>;
  return nullptr;
}

template <std::uint32_t Flags>
bool decode_sum(builder& b, const form& f) {
  std::uint32_t flags = Flags;
  if (f.has("cc")) flags |= writes_carry;
  if ((flags & (reads_carry | writes_carry)) == 0 || f.types.empty() || is_floating(f.t()))
    return false;
  const handler run = select_chain<false>(f.t());
  if (run == nullptr) return false;
  b.emit(run, {b.destination(f.operand(0), f.t())},
         {b.source(f.operand(1), f.t()), b.source(f.operand(2), f.t())})
      .sub = flags;
  return true;
}

template <std::uint32_t Flags>
bool decode_product(builder& b, const form& f) {
  std::uint32_t flags = Flags;
  if (f.has("cc")) flags |= writes_carry;
  if (f.has("hi")) flags |= high_half;
  if ((flags & (reads_carry | writes_carry)) == 0 || f.types.empty() || f.has("wide")) return false;
  handler run = select_chain<true>(f.t());
  if (f.has("hi") && is_signed(f.t())) run = f.t() == type::s32 ? carry_chain_signed_high : nullptr;
  if (run == nullptr) return false;
  b.emit(run, {b.destination(f.operand(0), f.t())},
         {b.source(f.operand(1), f.t()), b.source(f.operand(2), f.t()),
          b.source(f.operand(3), f.t())})
      .sub = flags;
  return true;
}

// Sum of products of the bytes of b with the bytes (dp4a) or halves (dp2a) of a.
template <class A, class B, std::uint32_t Terms>
void dot_product(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::byte* a = x.in(i.o[1]);
  const std::byte* b = x.in(i.o[2]);
  const std::byte* c = x.in(i.o[3]);
  std::byte* d = x.out(i.o[0]);
  for_lanes(lanes, [=, &i](std::uint32_t l) {
    const auto left = get<std::uint32_t>(a, l);
    const auto right = get<std::uint32_t>(b, l) >> (i.sub * 16);
    auto sum = get<std::uint32_t>(c, l);
    for (std::uint32_t n = 0; n < Terms; ++n) {
      const auto p = static_cast<A>(left >> (n * (32 / Terms)));
      const auto q = static_cast<B>(right >> (n * 8));
      sum += static_cast<std::uint32_t>(std::int32_t{p} * std::int32_t{q});
    }
    put(d, l, sum);
  });
}

template <class Signed, class Unsigned, std::uint32_t Terms>
bool decode_dot(builder& b, const form& f) {
  if (f.types.size() < 2) return false;
  const bool sa = is_signed(f.t(0)), sb = is_signed(f.t(1));
  using s8 = std::int8_t;
  using u8 = std::uint8_t;
  const handler run =
      sa ? (sb ? dot_product<Signed, s8, Terms> : dot_product<Signed, u8, Terms>)
         : (sb ? dot_product<Unsigned, s8, Terms> : dot_product<Unsigned, u8, Terms>);
  b.emit(run, {b.destination(f.operand(0), type::b32)},
         {b.source(f.operand(1), type::b32), b.source(f.operand(2), type::b32),
          b.source(f.operand(3), type::b32)})
      .sub = Terms == 2 && f.has("hi") ? 1 : 0;
  return true;
}

constexpr decode_entry entries[] = {
    {"add", decode_sum<0>},
    {"addc", decode_sum<reads_carry>},
    {"sub", decode_sum<subtracts>},
    {"subc", decode_sum<reads_carry | subtracts>},
    {"mad", decode_product<0>},
    {"madc", decode_product<reads_carry>},
    {"dp4a", decode_dot<std::int8_t, std::uint8_t, 4>},
    {"dp2a", decode_dot<std::int16_t, std::uint16_t, 2>},
};

}  // namespace

decode_table wide_integer_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
