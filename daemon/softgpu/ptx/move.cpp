// SPDX-License-Identifier: Apache-2.0
// mov in all its shapes, and the conversions between addresses of a space and generic addresses.
#include "lanes.hpp"
#include "linker.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

template <class D, class S>
void extend_lanes(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  for_lanes(lanes, [=](std::uint32_t l) { put<D>(d, l, static_cast<D>(get<S>(a, l))); });
}

// The register file's copy: a launch's address of a variable, known only at run time.
void device_address(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::uint64_t value =
      x.shared().variable_addresses[i.target] + static_cast<std::uint64_t>(i.immediate);
  std::byte* d = x.out(i.o[0]);
  for_lanes(lanes, [=](std::uint32_t l) { put(d, l, value); });
}

template <class T>
void dynamic_shared_address(executor& x, const instruction& i, std::uint32_t lanes) {
  const auto value =
      static_cast<T>(x.dynamic_shared_offset() + static_cast<std::uint64_t>(i.immediate));
  std::byte* d = x.out(i.o[0]);
  for_lanes(lanes, [=](std::uint32_t l) { put<T>(d, l, value); });
}

template <class T>
void local_address(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const frame* f = x.frame_;
  for_lanes(lanes, [=, &i](std::uint32_t l) {
    put<T>(d, l, static_cast<T>(f->local_base[l] + static_cast<std::uint64_t>(i.immediate)));
  });
}

// Joins `count` values into one of count times their size, lowest first.
template <class D, class S>
void pack(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    D value = 0;
    for (std::uint32_t n = 0; n < sizeof(D) / sizeof(S); ++n)
      value |= static_cast<D>(static_cast<D>(get<S>(x.in(i.o[1 + n]), l)) << (n * sizeof(S) * 8));
    put<D>(d, l, value);
  }
}

template <class D, class S>
void unpack(executor& x, const instruction& i, std::uint32_t lanes) {
  constexpr std::uint32_t count = sizeof(S) / sizeof(D);
  const std::byte* a = x.in(i.o[count]);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const S value = get<S>(a, l);
    for (std::uint32_t n = 0; n < count; ++n)
      put<D>(x.out(i.o[n]), l, static_cast<D>(value >> (n * sizeof(D) * 8)));
  }
}

template <bool Pack>
handler select_pack(std::uint32_t whole, std::size_t pieces) {
  using u8 = std::uint8_t;
  using u16 = std::uint16_t;
  using u32 = std::uint32_t;
  using u64 = std::uint64_t;
  switch (whole * 16 + pieces) {
    case 2 * 16 + 2:
      return Pack ? handler{pack<u16, u8>} : handler{unpack<u8, u16>};
    case 4 * 16 + 2:
      return Pack ? handler{pack<u32, u16>} : handler{unpack<u16, u32>};
    case 4 * 16 + 4:
      return Pack ? handler{pack<u32, u8>} : handler{unpack<u8, u32>};
    case 8 * 16 + 2:
      return Pack ? handler{pack<u64, u32>} : handler{unpack<u32, u64>};
    case 8 * 16 + 4:
      return Pack ? handler{pack<u64, u16>} : handler{unpack<u16, u64>};
    default:
      return nullptr;
  }
}

type piece_type(std::uint32_t bytes) {
  return bytes == 1 ? type::b8 : bytes == 2 ? type::b16 : bytes == 4 ? type::b32 : type::b64;
}

void move(builder& b, std::uint32_t d, std::uint32_t a, bool quad) {
  b.emit(register_move(quad ? register_class::quad : register_class::word), {d}, {a});
}

// mov.b128 between pairs of 64 bits and .b128 registers.
bool decode_move_128(builder& b, const form& f) {
  const auto pieces = [&](const syntax::operand& o, bool write) {
    const bool vector = o.kind == syntax::operand::form::vector;
    if (write) return vector ? b.destinations(o, type::b64, 2) : b.destinations(o, type::b128, 1);
    return vector ? b.sources(o, type::b64, 2) : b.sources(o, type::b128, 1);
  };
  const auto d = pieces(f.operand(0), true), a = pieces(f.operand(1), false);
  for (std::size_t n = 0; n < 2; ++n) move(b, d[n], a[n], true);
  return true;
}

bool decode_move(builder& b, const form& f) {
  if (f.types.size() != 1 || f.operand_count() != 2 || f.t() == type::pred) return false;
  const type t = f.t();
  if (t == type::b128) return decode_move_128(b, f);
  const auto &to = f.operand(0), &from = f.operand(1);
  const bool vector_to = to.kind == syntax::operand::form::vector;
  const bool vector_from = from.kind == syntax::operand::form::vector;
  if (vector_to && vector_from) return false;
  if (vector_to || vector_from) {
    const std::size_t pieces = (vector_to ? to : from).items.size();
    const std::uint32_t whole = bytes_of(t);
    const handler run =
        vector_to ? select_pack<false>(whole, pieces) : select_pack<true>(whole, pieces);
    if (run == nullptr) return false;
    const type piece = piece_type(whole / static_cast<std::uint32_t>(pieces));
    const auto d =
        vector_to ? b.destinations(to, piece, pieces) : std::vector{b.destination(to, t)};
    const auto a = vector_to ? std::vector{b.source(from, t)} : b.sources(from, piece, pieces);
    b.emit(run, d, a);
    return true;
  }
  const auto a = b.source(from, t);
  move(b, b.destination(to, t), a, lane_bytes(t) == 8);
  return true;
}

std::optional<std::uint64_t> window_of(const form& f) {
  for (const auto w : f.words) {
    if (w == "global" || w == "const") return 0;
    if (w == "shared" || w == "shared::cta" || w == "shared::cluster") return shared_window;
    if (w == "local") return local_window;
    if (w == "param" || w == "param::entry") return parameter_window;
  }
  return std::nullopt;
}

void offset_address(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  const auto offset = static_cast<std::uint64_t>(i.immediate);
  for_lanes(lanes, [=](std::uint32_t l) { put(d, l, get<std::uint64_t>(a, l) + offset); });
}

bool decode_address_conversion(builder& b, const form& f) {
  const auto window = window_of(f);
  if (!window) return false;
  const bool to_space = f.has("to");
  const type t = f.t();
  const auto a = b.source(f.operand(1), t);
  const auto d = b.destination(f.operand(0), t);
  if (lane_bytes(t) == 4) {
    move(b, d, a, false);
    return true;
  }
  b.emit(offset_address, {d}, {a}).immediate =
      static_cast<std::int64_t>(to_space ? 0 - *window : *window);
  return true;
}

void in_window(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::byte* a = x.in(i.o[1]);
  std::uint32_t result = 0;
  for (std::uint32_t l = 0; l < warp_lanes; ++l) {
    const std::uint64_t window = get<std::uint64_t>(a, l) & window_mask;
    result |= static_cast<std::uint32_t>(window == static_cast<std::uint64_t>(i.immediate)) << l;
  }
  x.set_predicate(i.o[0], lanes, result);
}

// isspacep.const: the address lies in memory that the driver made read-only.
void in_constant(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::byte* a = x.in(i.o[1]);
  std::uint32_t result = 0;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(m));
    const cached_range* r = x.find_range(get<std::uint64_t>(a, l), 1);
    result |= static_cast<std::uint32_t>(r != nullptr && !r->writable) << l;
  }
  x.set_predicate(i.o[0], lanes, result);
}

bool decode_is_space(builder& b, const form& f) {
  const auto window = window_of(f);
  if (!window) return false;
  const auto a = b.source(f.operand(1), type::u64);
  const auto p = b.destination(f.operand(0), type::pred);
  const bool own = f.has("shared") || f.has("shared::cta");
  b.emit(f.has("const") ? in_constant
         : own          ? own_shared_test()
                        : in_window,
         {p}, {a})
      .immediate = static_cast<std::int64_t>(*window);
  return true;
}

constexpr decode_entry entries[] = {
    {"mov", decode_move},
    {"cvta", decode_address_conversion},
    {"isspacep", decode_is_space},
};

}  // namespace

handler widening_move(type declared, type written) {
  if (lane_bytes(declared) == lane_bytes(written))
    return register_move(lane_bytes(declared) == 8 ? register_class::quad : register_class::word);
  switch (written) {
    case type::s8:
      return extend_lanes<std::int64_t, std::int8_t>;
    case type::s16:
      return extend_lanes<std::int64_t, std::int16_t>;
    case type::s32:
      return extend_lanes<std::int64_t, std::int32_t>;
    case type::u8:
    case type::b8:
      return extend_lanes<std::uint64_t, std::uint8_t>;
    case type::u16:
    case type::b16:
      return extend_lanes<std::uint64_t, std::uint16_t>;
    default:
      return extend_lanes<std::uint64_t, std::uint32_t>;
  }
}

handler narrowing_move() {
  return extend_lanes<std::uint32_t, std::uint64_t>;
}

handler register_move(register_class width) {
  return width == register_class::quad ? extend_lanes<std::uint64_t, std::uint64_t>
                                       : extend_lanes<std::uint32_t, std::uint32_t>;
}

handler address_move(variable_symbol::place where, type t) {
  const bool wide = lane_bytes(t) == 8;
  switch (where) {
    case variable_symbol::place::shared_dynamic:
      return wide ? dynamic_shared_address<std::uint64_t> : dynamic_shared_address<std::uint32_t>;
    case variable_symbol::place::local:
      return wide ? local_address<std::uint64_t> : local_address<std::uint32_t>;
    default:
      return device_address;
  }
}

decode_table move_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
