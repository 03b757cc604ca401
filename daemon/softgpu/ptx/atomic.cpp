// SPDX-License-Identifier: Apache-2.0
// atom and red. Blocks run on several threads, so every operation is one of the host's atomics or a
// loop around its compare-and-exchange. All are sequentially consistent, which every .sem allows.
#include <algorithm>
#include <optional>

#include "builder.hpp"
#include "float_math.hpp"
#include "memory_access.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

template <class T>
T fetch_update(std::byte* at, auto&& change) {
  using bits = unsigned_of<sizeof(T)>;
  auto* place = reinterpret_cast<bits*>(at);
  bits old = __atomic_load_n(place, __ATOMIC_RELAXED);
  for (;;) {
    const bits next = std::bit_cast<bits>(static_cast<T>(change(std::bit_cast<T>(old))));
    if (__atomic_compare_exchange_n(place, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      return std::bit_cast<T>(old);
  }
}

struct add_op {
  template <class T>
  static T apply(std::byte* at, T b, T) {
    if constexpr (std::is_integral_v<T>)
      return __atomic_fetch_add(reinterpret_cast<T*>(at), b, __ATOMIC_SEQ_CST);
    else
      return fetch_update<T>(at, [b](T old) { return canonical(old + b); });
  }
};
// Global memory's unit for single precision flushes subnormal numbers; shared memory's does not.
struct add_flushing_op {
  template <class T>
  static T apply(std::byte* at, T b, T) {
    return fetch_update<T>(at, [b](T old) { return canonical(flush(flush(old) + flush(b))); });
  }
};
struct and_op {
  template <class T>
  static T apply(std::byte* at, T b, T) {
    return __atomic_fetch_and(reinterpret_cast<T*>(at), b, __ATOMIC_SEQ_CST);
  }
};
struct or_op {
  template <class T>
  static T apply(std::byte* at, T b, T) {
    return __atomic_fetch_or(reinterpret_cast<T*>(at), b, __ATOMIC_SEQ_CST);
  }
};
struct xor_op {
  template <class T>
  static T apply(std::byte* at, T b, T) {
    return __atomic_fetch_xor(reinterpret_cast<T*>(at), b, __ATOMIC_SEQ_CST);
  }
};
struct exchange_op {
  template <class T>
  static T apply(std::byte* at, T b, T) {
    return __atomic_exchange_n(reinterpret_cast<T*>(at), b, __ATOMIC_SEQ_CST);
  }
};
struct compare_op {
  template <class T>
  static T apply(std::byte* at, T expected, T desired) {
    __atomic_compare_exchange_n(reinterpret_cast<T*>(at), &expected, desired, false,
                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
  }
};
struct min_op {
  template <class T>
  static T apply(std::byte* at, T b, T) {
    return fetch_update<T>(at, [b](T old) { return old != old ? b : (b < old ? b : old); });
  }
};
struct max_op {
  template <class T>
  static T apply(std::byte* at, T b, T) {
    return fetch_update<T>(at, [b](T old) { return old != old ? b : (old < b ? b : old); });
  }
};
struct increment_op {
  template <class T>
  static T apply(std::byte* at, T b, T) {
    return fetch_update<T>(at, [b](T old) { return old >= b ? T{0} : static_cast<T>(old + 1); });
  }
};
struct decrement_op {
  template <class T>
  static T apply(std::byte* at, T b, T) {
    return fetch_update<T>(
        at, [b](T old) { return old == 0 || old > b ? b : static_cast<T>(old - 1); });
  }
};

// Sixteen-bit floats, one or a pair in a word; add, min and max.
enum class half_atomic : std::uint8_t { add, minimum, maximum };
template <bool Bfloat>
std::uint16_t combine_half(half_atomic op, std::uint16_t a, std::uint16_t b) {
  const float x = Bfloat ? from_bfloat(a) : from_half(a),
              y = Bfloat ? from_bfloat(b) : from_half(b);
  if (op == half_atomic::add) {
    const double sum = fused_odd(x, 1.0, y);
    return Bfloat ? to_bfloat(sum) : to_half(sum);
  }
  if (x != x || y != y) return x != x ? b : a;
  return (x < y) == (op == half_atomic::minimum) ? a : b;
}
template <half_atomic Op, bool Bfloat>
struct half_op {
  template <class T>
  static T apply(std::byte* at, T b, T) {
    return fetch_update<T>(at, [b](T old) {
      T result = 0;
      for (std::uint32_t shift = 0; shift < sizeof(T) * 8; shift += 16)
        result =
            static_cast<T>(result | static_cast<T>(std::uint32_t{combine_half<Bfloat>(
                                                       Op, static_cast<std::uint16_t>(old >> shift),
                                                       static_cast<std::uint16_t>(b >> shift))}
                                                   << shift));
      return result;
    });
  }
};

// atom: o = old values (count), address, b (count), c. red: the same without destinations.
template <class Op, class T, class Space, bool Returns>
void update(executor& x, const instruction& i, std::uint32_t lanes) {
  Space space(x, i);
  const std::uint32_t count = i.count;
  const std::uint32_t at = Returns ? count : 0;
  const lane_addresses address(x, i.o[at], i);
  const std::byte* c = x.in(i.o[std::min(at + count + 1, operand_count_max - 1)]);
  x.spend(64);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    std::byte* place = space.at(address(l), l, sizeof(T) * count, true);
    if (place == nullptr) return;
    for (std::uint32_t n = 0; n < count; ++n) {
      const T b = get<T>(x.in(i.o[at + 1 + n]), l);
      const T old =
          Op::template apply<T>(place + n * sizeof(T), b, count == 1 ? get<T>(c, l) : T{});
      if constexpr (Returns) put<T>(x.out(i.o[n]), l, old);
    }
  }
}

template <class Op, class T>
handler select_place(state_space space, bool returns) {
  switch (space) {
    case state_space::global:
      return returns ? update<Op, T, global_space, true> : update<Op, T, global_space, false>;
    case state_space::shared:
      return returns ? update<Op, T, shared_space, true> : update<Op, T, shared_space, false>;
    case state_space::generic:
      return returns ? update<Op, T, generic_space, true> : update<Op, T, generic_space, false>;
    default:
      return nullptr;
  }
}

template <class Op>
handler select_bits(type t, state_space space, bool returns) {
  switch (bytes_of(t)) {
    case 2:
      return select_place<Op, std::uint16_t>(space, returns);
    case 4:
      return select_place<Op, std::uint32_t>(space, returns);
    case 8:
      return select_place<Op, std::uint64_t>(space, returns);
    default:
      return nullptr;
  }
}

template <class Op, half_atomic Half>
handler select_arithmetic(type t, state_space space, bool returns) {
  switch (t) {
    case type::u32:
      return select_place<Op, std::uint32_t>(space, returns);
    case type::u64:
      return select_place<Op, std::uint64_t>(space, returns);
    case type::s32:
      return select_place<Op, std::int32_t>(space, returns);
    case type::s64:
      return select_place<Op, std::int64_t>(space, returns);
    case type::f32:
      if (std::is_same_v<Op, add_op> && space == state_space::global)
        return select_place<add_flushing_op, float>(space, returns);
      return select_place<Op, float>(space, returns);
    case type::f64:
      return select_place<Op, double>(space, returns);
    case type::f16:
      return select_place<half_op<Half, false>, std::uint16_t>(space, returns);
    case type::bf16:
      return select_place<half_op<Half, true>, std::uint16_t>(space, returns);
    case type::f16x2:
      return select_place<half_op<Half, false>, std::uint32_t>(space, returns);
    case type::bf16x2:
      return select_place<half_op<Half, true>, std::uint32_t>(space, returns);
    default:
      return nullptr;
  }
}

handler select_operation(const form& f, state_space space, bool returns) {
  const type t = f.t();
  if (f.has("add")) return select_arithmetic<add_op, half_atomic::add>(t, space, returns);
  if (f.has("min")) return select_arithmetic<min_op, half_atomic::minimum>(t, space, returns);
  if (f.has("max")) return select_arithmetic<max_op, half_atomic::maximum>(t, space, returns);
  if (f.has("exch")) return select_bits<exchange_op>(t, space, returns);
  if (f.has("cas")) return select_bits<compare_op>(t, space, returns);
  if (f.has("and")) return select_bits<and_op>(t, space, returns);
  if (f.has("or")) return select_bits<or_op>(t, space, returns);
  if (f.has("xor")) return select_bits<xor_op>(t, space, returns);
  if (f.has("inc")) return select_bits<increment_op>(t, space, returns);
  if (f.has("dec")) return select_bits<decrement_op>(t, space, returns);
  return nullptr;
}

template <bool Returns>
bool decode_update(builder& b, const form& f) {
  const auto space = decode_space(f);
  if (!space || f.types.size() != 1) return false;
  const handler run = select_operation(f, *space, Returns);
  const std::uint32_t count = f.vector();
  const std::size_t first = Returns ? 1 : 0;
  const bool compares = f.has("cas");
  // A vector of four with results needs more operands than an instruction holds; two halves would
  // not be wrong, since vector atomics are atomic by element only.
  if (run == nullptr || f.operand_count() < first + (compares ? 3 : 2) || count > 4) return false;
  std::vector<std::uint32_t> d, values;
  if (Returns) d = b.destinations(f.operand(0), f.t(), count);
  values = b.sources(f.operand(first + 1), f.t(), count);
  const address_operand a = decode_address(b, f.operand(first));
  const std::uint32_t step = std::min(count, 2u);
  for (std::uint32_t n = 0; n < count; n += step) {
    std::vector<std::uint32_t> uses{a.base};
    uses.insert(uses.end(), values.begin() + n, values.begin() + n + step);
    if (compares) uses.push_back(b.source(f.operand(first + 2), f.t()));
    const std::span<const std::uint32_t> old =
        Returns ? std::span<const std::uint32_t>(d).subspan(n, step)
                : std::span<const std::uint32_t>();
    instruction& i = b.emit(run, old, uses, flow::checked);
    i.immediate = a.addend + std::int64_t{n} * bytes_of(f.t());
    i.count = static_cast<std::uint8_t>(step);
    i.sub = a.narrow ? lane_addresses::narrow_flag : 0;
  }
  return true;
}

constexpr decode_entry entries[] = {
    {"atom", decode_update<true>},
    {"red", decode_update<false>},
};

}  // namespace

decode_table atomic_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
