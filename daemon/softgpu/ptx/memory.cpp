// SPDX-License-Identifier: Apache-2.0
// ld and st in all spaces. Accesses of up to 8 bytes are single-copy atomic, as other blocks run on
// other threads.
#include <atomic>
#include <optional>

#include "builder.hpp"
#include "memory_access.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

std::string hexadecimal(std::uint64_t value) {
  std::string digits;
  do {
    digits.insert(digits.begin(), "0123456789abcdef"[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + digits;
}

enum : std::uint32_t { fence_before = 1, fence_after = 2, spins = 4 };

template <class T>
T read(const std::byte* from) {
  return __atomic_load_n(reinterpret_cast<const T*>(from), __ATOMIC_RELAXED);
}
template <class T>
void write(std::byte* to, T value) {
  __atomic_store_n(reinterpret_cast<T*>(to), value, __ATOMIC_RELAXED);
}

// o = destinations (count), address. T is what lies in memory, D what lies in a lane.
template <class T, class D, class Space>
void load(executor& x, const instruction& i, std::uint32_t lanes) {
  Space space(x, i);
  const std::uint32_t count = i.count;
  const lane_addresses address(x, i.o[count], i);
  std::byte* d[4];
  for (std::uint32_t n = 0; n < count; ++n) d[n] = x.out(i.o[n]);
  if ((i.sub & spins) != 0) x.spend(64);
  if ((i.sub & fence_before) != 0) std::atomic_thread_fence(std::memory_order_seq_cst);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const std::byte* from = space.at(address(l), l, sizeof(T) * count, false);
    if (from == nullptr) return;
    for (std::uint32_t n = 0; n < count; ++n)
      put<D>(d[n], l, static_cast<D>(read<T>(from + n * sizeof(T))));
  }
  if ((i.sub & fence_after) != 0) std::atomic_thread_fence(std::memory_order_acquire);
}

// o = address, sources (count).
template <class T, class Space>
void store(executor& x, const instruction& i, std::uint32_t lanes) {
  Space space(x, i);
  const std::uint32_t count = i.count;
  const lane_addresses address(x, i.o[0], i);
  if ((i.sub & fence_before) != 0) std::atomic_thread_fence(std::memory_order_seq_cst);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    std::byte* to = space.at(address(l), l, sizeof(T) * count, true);
    if (to == nullptr) return;
    for (std::uint32_t n = 0; n < count; ++n)
      write<T>(to + n * sizeof(T), get<T>(x.in(i.o[1 + n]), l));
  }
}

// ld.param of a kernel: the same for every lane.
template <class T, class D>
void load_argument(executor& x, const instruction& i, std::uint32_t lanes) {
  const auto& arguments = x.shared().arguments;
  for (std::uint32_t n = 0; n < i.count; ++n) {
    const std::size_t at = static_cast<std::size_t>(i.immediate) + n * sizeof(T);
    T value{};
    if (at + sizeof(T) <= arguments.size())
      std::memcpy(&value, arguments.data() + at, sizeof value);
    std::byte* d = x.out(i.o[n]);
    for_lanes(lanes, [=](std::uint32_t l) { put<D>(d, l, static_cast<D>(value)); });
  }
}

// ld.param and st.param of a function: the frame's own bytes of each lane.
template <class T, class D>
void load_parameter(executor& x, const instruction& i, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const std::byte* from = x.frame_->parameter(l, static_cast<std::uint32_t>(i.immediate));
    for (std::uint32_t n = 0; n < i.count; ++n) {
      T value;
      std::memcpy(&value, from + n * sizeof(T), sizeof value);
      put<D>(x.out(i.o[n]), l, static_cast<D>(value));
    }
  }
}
template <class T>
void store_parameter(executor& x, const instruction& i, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    std::byte* to = x.frame_->parameter(l, static_cast<std::uint32_t>(i.immediate));
    for (std::uint32_t n = 0; n < i.count; ++n) {
      const T value = get<T>(x.in(i.o[n]), l);
      std::memcpy(to + n * sizeof(T), &value, sizeof value);
    }
  }
}

template <class T, class D>
handler select_load(state_space space) {
  switch (space) {
    case state_space::generic:
      return load<T, D, generic_space>;
    case state_space::shared:
      return load<T, D, shared_space>;
    case state_space::local:
      return load<T, D, local_space>;
    case state_space::argument:
      return load<T, D, argument_space>;
    default:
      return load<T, D, global_space>;
  }
}

template <class T>
handler select_store(state_space space) {
  switch (space) {
    case state_space::generic:
      return store<T, generic_space>;
    case state_space::shared:
      return store<T, shared_space>;
    case state_space::local:
      return store<T, local_space>;
    case state_space::global:
      return store<T, global_space>;
    default:
      return nullptr;
  }
}

// Lanes of 4 bytes hold what narrower types extend to.
template <template <class, class> class Use>
auto with_load_type(type t) {
  switch (t) {
    case type::s8:
      return Use<std::int8_t, std::int32_t>::get();
    case type::s16:
      return Use<std::int16_t, std::int32_t>::get();
    default:
      break;
  }
  switch (bytes_of(t)) {
    case 1:
      return Use<std::uint8_t, std::uint32_t>::get();
    case 2:
      return Use<std::uint16_t, std::uint32_t>::get();
    case 4:
      return Use<std::uint32_t, std::uint32_t>::get();
    default:
      return Use<std::uint64_t, std::uint64_t>::get();
  }
}
template <class T, class D>
struct plain_load {
  static auto get() { return select_load<T, D>; }
};
template <class T, class D>
struct argument_load {
  static auto get() { return handler{load_argument<T, D>}; }
};
template <class T, class D>
struct parameter_load {
  static auto get() { return handler{load_parameter<T, D>}; }
};

handler select_store(type t, state_space space) {
  switch (bytes_of(t)) {
    case 1:
      return select_store<std::uint8_t>(space);
    case 2:
      return select_store<std::uint16_t>(space);
    case 4:
      return select_store<std::uint32_t>(space);
    default:
      return select_store<std::uint64_t>(space);
  }
}
handler select_parameter_store(type t) {
  switch (bytes_of(t)) {
    case 1:
      return store_parameter<std::uint8_t>;
    case 2:
      return store_parameter<std::uint16_t>;
    case 4:
      return store_parameter<std::uint32_t>;
    default:
      return store_parameter<std::uint64_t>;
  }
}

std::uint32_t flags_of(const form& f) {
  std::uint32_t flags = 0;
  if (f.has("volatile") || f.has("relaxed") || f.has("mmio")) flags |= spins;
  if (f.has("acquire")) flags |= spins | fence_after;
  if (f.has("release")) flags |= fence_before;
  return flags;
}

const variable_symbol* named_variable(builder& b, const syntax::operand& address) {
  if (address.kind != syntax::operand::form::address || address.items.empty()) return nullptr;
  const auto& base = address.items[0];
  if (base.kind != syntax::operand::form::name || b.find_register(base) != nullptr) return nullptr;
  return b.find_variable(base.name);
}

bool is_parameter(const form& f) {
  return f.has("param") || f.has("param::entry") || f.has("param::func");
}

// The one type of ld and st; .b128 counts as two of 64 bits.
struct access_shape {
  type element;
  std::uint32_t count;
};
std::optional<access_shape> shape_of(const form& f) {
  if (f.types.size() != 1 || f.t() == type::pred) return std::nullopt;
  if (f.t() == type::b128) {
    if (f.vector() != 1) return std::nullopt;
    return access_shape{type::b64, 2};
  }
  if (f.vector() > 4) return std::nullopt;
  return access_shape{f.t(), f.vector()};
}

bool decode_load(builder& b, const form& f) {
  const auto shape = shape_of(f);
  if (!shape || f.operand_count() < 2) return false;
  const auto d = f.t() == type::b128 ? b.destinations(f.operand(0), type::b128, 1)
                                     : b.destinations(f.operand(0), shape->element, shape->count);
  const auto& where = f.operand(1);
  if (is_parameter(f)) {
    if (const variable_symbol* v = named_variable(b, where)) {
      const bool argument = v->where == variable_symbol::place::argument;
      if (!argument && v->where != variable_symbol::place::parameter) return false;
      const auto offset = std::int64_t{v->offset} + where.addend;
      if (offset < 0 || where.addend + bytes_of(shape->element) * shape->count > v->bytes)
        fail_syntax(f.line(), "access beyond parameter '" + std::string(where.items[0].name) + "'");
      const handler run = argument ? with_load_type<argument_load>(shape->element)
                                   : with_load_type<parameter_load>(shape->element);
      instruction& i = b.emit(run, d, {});
      i.immediate = offset;
      i.count = static_cast<std::uint8_t>(shape->count);
      return true;
    }
  }
  const auto space = is_parameter(f) ? std::optional(state_space::argument) : decode_space(f);
  if (!space) return false;
  const address_operand a = decode_address(b, where);
  const std::uint32_t base[] = {a.base};
  instruction& i =
      b.emit(with_load_type<plain_load>(shape->element)(*space), d, base, flow::checked);
  i.immediate = a.addend;
  i.count = static_cast<std::uint8_t>(shape->count);
  i.sub = flags_of(f) | (a.narrow ? lane_addresses::narrow_flag : 0);
  return true;
}

bool decode_store(builder& b, const form& f) {
  const auto shape = shape_of(f);
  if (!shape || f.operand_count() < 2) return false;
  auto uses = f.t() == type::b128 ? b.sources(f.operand(1), type::b128, 1)
                                  : b.sources(f.operand(1), shape->element, shape->count);
  const auto& where = f.operand(0);
  if (is_parameter(f)) {
    const variable_symbol* v = named_variable(b, where);
    if (v == nullptr || v->where != variable_symbol::place::parameter) return false;
    if (where.addend < 0 || where.addend + bytes_of(shape->element) * shape->count > v->bytes)
      fail_syntax(f.line(), "access beyond parameter '" + std::string(where.items[0].name) + "'");
    instruction& i = b.emit(select_parameter_store(shape->element), {}, uses);
    i.immediate = std::int64_t{v->offset} + where.addend;
    i.count = static_cast<std::uint8_t>(shape->count);
    return true;
  }
  const auto space = decode_space(f);
  const handler run = space ? select_store(shape->element, *space) : nullptr;
  if (run == nullptr) return false;
  const address_operand a = decode_address(b, where);
  uses.insert(uses.begin(), a.base);
  instruction& i = b.emit(run, {}, uses, flow::checked);
  i.immediate = a.addend;
  i.count = static_cast<std::uint8_t>(shape->count);
  i.sub = flags_of(f) | (a.narrow ? lane_addresses::narrow_flag : 0);
  return true;
}

// Hints about caches change nothing here.
bool decode_nothing(builder&, const form&) {
  return true;
}

constexpr decode_entry entries[] = {
    {"ld", decode_load},
    {"ldu", decode_load},
    {"st", decode_store},
    {"prefetch", decode_nothing},
    {"prefetchu", decode_nothing},
    {"discard", decode_nothing},
    {"applypriority", decode_nothing},
};

}  // namespace

std::byte* raise_misaligned(executor& x, const instruction& i, std::uint64_t address) {
  x.raise(fault_kind::misaligned_address, i, "misaligned access to " + hexadecimal(address));
  return nullptr;
}

std::byte* raise_illegal(executor& x, const instruction& i, std::uint64_t address,
                         const char* space) {
  x.raise(fault_kind::illegal_address, i,
          "illegal access to " + std::string(space) + " address " + hexadecimal(address));
  return nullptr;
}

address_operand decode_address(builder& b, const syntax::operand& o) {
  if (o.kind != syntax::operand::form::address || o.items.empty())
    fail_syntax(b.line(), "expected an address");
  address_operand result;
  const auto& base = o.items[0];
  result.addend = o.addend;
  const auto declared = b.declared_type(base);
  result.narrow = declared && lane_bytes(*declared) == 4;
  result.base = b.source(base, result.narrow ? type::u32 : type::u64);
  return result;
}

std::optional<state_space> decode_space(const form& f) {
  if (f.has("global")) return state_space::global;
  if (f.has("shared") || f.has("shared::cta") || f.has("shared::cluster"))
    return state_space::shared;
  if (f.has("local")) return state_space::local;
  if (f.has("const")) return state_space::constant;
  if (is_parameter(f)) return std::nullopt;
  return state_space::generic;
}

void store_parameter_of(builder& b, type t, std::uint32_t source, std::uint32_t offset) {
  b.emit(select_parameter_store(t), {}, {source}).immediate = offset;
}

void load_parameter_of(builder& b, type t, std::uint32_t destination, std::uint32_t offset) {
  b.emit(with_load_type<parameter_load>(t), {destination}, {}).immediate = offset;
}

decode_table memory_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
