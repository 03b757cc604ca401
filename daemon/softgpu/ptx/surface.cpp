// SPDX-License-Identifier: Apache-2.0
// suld, sust and sured on surface objects. Single values are read and written in one access, as
// other blocks run on other threads.
#include <algorithm>

#include "float_math.hpp"
#include "memory_access.hpp"
#include "staging.hpp"
#include "texture_operands.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

namespace slots {
constexpr std::uint32_t handle = 0, coordinate = 1, layer = 4, value = 16;
}

enum class outside : std::uint8_t { trap, clamp, zero };

// instruction: sub = geometry and flags below, count = elements, extra = bytes of an element,
// immediate = what the reduction does.
enum : std::uint32_t {
  dimension_bits = 3,
  outside_shift = 2,  // two bits
  in_elements = 16,   // x counts elements of the surface, not bytes
};

enum class reduction : std::uint8_t { add, minimum, maximum, conjunction, disjunction };

std::int64_t coordinate(executor& x, std::uint32_t axis, std::uint32_t lane) {
  return static_cast<std::int32_t>(staged_word(x, slots::coordinate + axis, lane));
}

// Brings `at` to [0, end - bytes]; false when it is outside.
bool bring_inside(std::int64_t& at, std::int64_t bytes, std::int64_t end) {
  if (at >= 0 && at + bytes <= end) return true;
  at = std::max<std::int64_t>(std::min(at, end - bytes), 0);
  return false;
}

struct surface_place {
  std::byte* at = nullptr;  // null: outside, or after a fault
  bool failed = false;
};

// Where `bytes` bytes of a surface lie for this lane.
surface_place find_place(executor& x, const instruction& i, const texture& on, std::uint32_t lane,
                         std::uint32_t bytes) {
  const auto& image = on.levels.front();
  const std::uint32_t dimensions = i.sub & dimension_bits;
  const auto mode = static_cast<outside>(i.sub >> outside_shift & 3);
  const std::uint32_t element = on.format.bytes();
  const auto row = static_cast<std::int64_t>(std::uint64_t{image.width} * element);
  std::int64_t x_bytes = coordinate(x, 0, lane) * ((i.sub & in_elements) != 0 ? element : 1);
  std::int64_t y = dimensions > 1 ? coordinate(x, 1, lane) : 0;
  std::int64_t z = dimensions > 2 ? coordinate(x, 2, lane)
                                  : static_cast<std::int32_t>(staged_word(x, slots::layer, lane));
  bool inside = bring_inside(x_bytes, bytes, row);
  inside &= bring_inside(y, 1, image.height);
  inside &= bring_inside(z, 1, image.depth);
  if (!inside && mode == outside::trap) {
    raise_illegal(x, i, static_cast<std::uint64_t>(x_bytes), "surface");
    return {nullptr, true};
  }
  if (!inside && mode == outside::zero) return {};
  std::byte* at = image.data + static_cast<std::uint64_t>(z) * image.slice +
                  static_cast<std::uint64_t>(y) * image.pitch + x_bytes;
  if (x_bytes % std::min<std::uint32_t>(bytes, 16) != 0) {
    raise_misaligned(x, i, static_cast<std::uint64_t>(x_bytes));
    return {nullptr, true};
  }
  return {at, false};
}

const texture* surface_of(executor& x, const instruction& i, std::uint32_t lane) {
  return find_texture(x, i, staged(x, slots::handle, lane), true);
}

template <class T>
void load_elements(executor& x, const instruction& i, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const texture* on = surface_of(x, i, l);
    if (on == nullptr) return;
    const auto place = find_place(x, i, *on, l, sizeof(T) * i.count);
    if (place.failed) return;
    for (std::uint32_t n = 0; n < i.count; ++n) {
      const T* from = reinterpret_cast<const T*>(place.at) + n;
      staged(x, slots::value + n, l) =
          place.at == nullptr ? 0 : __atomic_load_n(from, __ATOMIC_RELAXED);
    }
  }
}

template <class T>
void store_elements(executor& x, const instruction& i, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const texture* on = surface_of(x, i, l);
    if (on == nullptr) return;
    const auto place = find_place(x, i, *on, l, sizeof(T) * i.count);
    if (place.failed) return;
    if (place.at == nullptr) continue;
    for (std::uint32_t n = 0; n < i.count; ++n)
      __atomic_store_n(reinterpret_cast<T*>(place.at) + n,
                       static_cast<T>(staged(x, slots::value + n, l)), __ATOMIC_RELAXED);
  }
}

// sust.p: a 32-bit value becomes what the format holds.
void store_channel(const texel_format& format, std::byte* to, std::uint32_t value) {
  const auto put_bytes = [to](auto v) { std::memcpy(to, &v, sizeof v); };
  const auto integer = static_cast<std::int32_t>(value);
  switch (format.kind) {
    case channel_kind::u8:
      return put_bytes(static_cast<std::uint8_t>(std::min(value, 255u)));
    case channel_kind::u16:
      return put_bytes(static_cast<std::uint16_t>(std::min(value, 65535u)));
    case channel_kind::s8:
      return put_bytes(static_cast<std::int8_t>(std::clamp(integer, -128, 127)));
    case channel_kind::s16:
      return put_bytes(static_cast<std::int16_t>(std::clamp(integer, -32768, 32767)));
    case channel_kind::f16:
      return put_bytes(to_half(double{std::bit_cast<float>(value)}));
    default:
      return put_bytes(value);
  }
}

void store_formatted(executor& x, const instruction& i, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const texture* on = surface_of(x, i, l);
    if (on == nullptr) return;
    const auto& format = on->format;
    const auto place = find_place(x, i, *on, l, format.bytes());
    if (place.failed) return;
    if (place.at == nullptr) continue;
    for (std::uint32_t n = 0; n < std::min<std::uint32_t>(format.channels, i.count); ++n)
      store_channel(format, place.at + n * channel_bytes(format.kind),
                    staged_word(x, slots::value + n, l));
  }
}

template <class T>
void reduce_at(T* at, T value, reduction what) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED), wanted = 0;
  do {
    switch (what) {
      case reduction::add:
        wanted = static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) +
                                static_cast<std::make_unsigned_t<T>>(value));
        break;
      case reduction::minimum:
        wanted = std::min(old, value);
        break;
      case reduction::maximum:
        wanted = std::max(old, value);
        break;
      case reduction::conjunction:
        wanted = old & value;
        break;
      case reduction::disjunction:
        wanted = old | value;
        break;
    }
  } while (
      !__atomic_compare_exchange_n(at, &old, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

template <class T>
void reduce(executor& x, const instruction& i, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const texture* on = surface_of(x, i, l);
    if (on == nullptr) return;
    const auto place = find_place(x, i, *on, l, sizeof(T));
    if (place.failed) return;
    if (place.at == nullptr) continue;
    reduce_at(reinterpret_cast<T*>(place.at), static_cast<T>(staged(x, slots::value, l)),
              static_cast<reduction>(i.immediate));
  }
}

struct surface_access {
  std::uint32_t sub = 0;
  std::uint32_t elements = 1;
  type element = type::b32;
};

// What all three have in common. `where` is the operand with the place.
std::optional<surface_access> decode_access(builder& b, const form& f,
                                            const syntax::operand& where) {
  const auto shape = find_geometry(f);
  if (!shape || shape->cube || f.types.size() != 1 || f.vector() > 4) return std::nullopt;
  if (!stage_image_handle(b, where, slots::handle)) return std::nullopt;
  if (!stage_coordinates(b, where.items[1], *shape, type::s32, slots::coordinate, slots::layer))
    return std::nullopt;
  const auto mode = f.has("clamp") ? outside::clamp : f.has("zero") ? outside::zero : outside::trap;
  surface_access made;
  made.sub = shape->dimensions | static_cast<std::uint32_t>(mode) << outside_shift |
             (f.has("p") ? std::uint32_t{in_elements} : 0u);
  made.elements = f.vector();
  made.element = f.t();
  return made;
}

template <template <class> class Choose>
handler by_size(type t) {
  switch (bytes_of(t)) {
    case 1:
      return Choose<std::uint8_t>::run;
    case 2:
      return Choose<std::uint16_t>::run;
    case 4:
      return Choose<std::uint32_t>::run;
    default:
      return Choose<std::uint64_t>::run;
  }
}
template <class T>
struct loading {
  static constexpr handler run = load_elements<T>;
};
template <class T>
struct storing {
  static constexpr handler run = store_elements<T>;
};

void emit_access(builder& b, handler run, const surface_access& access, std::int64_t immediate) {
  instruction& i = b.emit(run, {}, {}, flow::checked);
  i.sub = access.sub;
  i.count = static_cast<std::uint8_t>(access.elements);
  i.immediate = immediate;
}

bool decode_load(builder& b, const form& f) {
  if (!f.has("b") || f.operand_count() != 2 || f.types.size() != 1) return false;
  const auto d = b.destinations(f.operand(0), f.t(), f.vector());
  const auto access = decode_access(b, f, f.operand(1));
  if (!access) return false;
  emit_access(b, by_size<loading>(access->element), *access, 0);
  unstage(b, d, access->element, slots::value);
  return true;
}

bool decode_store(builder& b, const form& f) {
  if (f.operand_count() != 2 || (!f.has("b") && !f.has("p"))) return false;
  const auto access = decode_access(b, f, f.operand(0));
  if (!access || (f.has("p") && bytes_of(access->element) != 4)) return false;
  stage(b, b.sources(f.operand(1), access->element, access->elements), access->element,
        slots::value);
  emit_access(b, f.has("p") ? store_formatted : by_size<storing>(access->element), *access, 0);
  return true;
}

std::optional<reduction> find_reduction(const form& f) {
  if (f.has("add")) return reduction::add;
  if (f.has("min")) return reduction::minimum;
  if (f.has("max")) return reduction::maximum;
  if (f.has("and")) return reduction::conjunction;
  if (f.has("or")) return reduction::disjunction;
  return std::nullopt;
}

bool decode_reduction(builder& b, const form& f) {
  const auto what = find_reduction(f);
  if (!what || f.operand_count() != 2 || f.vector() != 1 || f.types.size() != 1) return false;
  const type t = f.t();
  const handler run = t == type::s32                     ? reduce<std::int32_t>
                      : t == type::s64                   ? reduce<std::int64_t>
                      : t == type::u32 || t == type::b32 ? reduce<std::uint32_t>
                      : t == type::u64 || t == type::b64 ? handler{reduce<std::uint64_t>}
                                                         : nullptr;
  const auto access = run != nullptr ? decode_access(b, f, f.operand(0)) : std::nullopt;
  if (!access) return false;
  stage(b, b.sources(f.operand(1), t, 1), t, slots::value);
  emit_access(b, run, *access, static_cast<std::int64_t>(*what));
  return true;
}

constexpr decode_entry entries[] = {
    {"suld", decode_load}, {"sust", decode_store}, {"sured", decode_reduction}};

}  // namespace

decode_table surface_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
