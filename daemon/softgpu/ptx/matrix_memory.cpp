// SPDX-License-Identifier: Apache-2.0
// wmma.load and wmma.store, ldmatrix and stmatrix: between memory and the fragments of a warp.
#include <optional>

#include "matrix.hpp"
#include "memory_access.hpp"
#include "staging.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

constexpr std::uint32_t slot_fragment = 0, slot_address = 32, slot_stride = 33;

std::uint32_t element_bytes(type t) {
  return t == type::tf32 ? 4 : bytes_of(t);
}

// Packed into instruction::sub.
struct transfer {
  fragment_role role = fragment_role::a;
  matrix_shape shape;
  type element = type::f16;
  std::uint32_t registers = 0;
  bool by_rows = true;  // of the matrix in memory
};

std::int64_t pack(const transfer& t) {
  return static_cast<std::int64_t>(
      std::uint64_t{t.shape.m} | std::uint64_t{t.shape.n} << 8 | std::uint64_t{t.shape.k} << 16 |
      std::uint64_t{t.registers} << 24 | static_cast<std::uint64_t>(t.role) << 32 |
      static_cast<std::uint64_t>(t.element) << 40 | std::uint64_t{t.by_rows} << 48);
}

transfer unpack(const instruction& i) {
  const auto byte = [&](std::uint32_t n) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(i.immediate) >> (8 * n) & 0xff);
  };
  transfer t;
  t.shape = {byte(0), byte(1), byte(2)};
  t.registers = byte(3);
  t.role = static_cast<fragment_role>(byte(4));
  t.element = static_cast<type>(byte(5));
  t.by_rows = byte(6) != 0;
  return t;
}

// Elements from the start of the matrix. B's outer index is its column.
std::uint64_t distance(const transfer& t, const element_place& at, std::uint64_t stride) {
  const bool outer_is_row = t.role != fragment_role::b;
  return outer_is_row == t.by_rows ? at.outer * stride + at.inner : at.inner * stride + at.outer;
}

// `each(memory, slot, shift)` moves one element: its bytes, its register's slot, its place there.
template <class Space, class Each>
void for_each_element(executor& x, const instruction& i, std::uint32_t lanes, bool write,
                      Each each) {
  const transfer t = unpack(i);
  Space space(x, i);
  const std::uint32_t packed = elements_per_register(t.element);
  const std::uint32_t held = t.registers * packed, bytes = element_bytes(t.element);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const std::uint64_t start = staged(x, slot_address, l), stride = staged(x, slot_stride, l);
    for (std::uint32_t index = 0; index < held; ++index) {
      const auto at = wmma_place(t.role, t.shape, held, l, index);
      std::byte* memory = space.at(start + distance(t, at, stride) * bytes, l, bytes, write);
      if (memory == nullptr) return;
      each(memory, staged(x, slot_fragment + index / packed, l), index % packed * 32 / packed,
           bytes);
    }
  }
}

template <class Space>
void load_fragment(executor& x, const instruction& i, std::uint32_t lanes) {
  for_each_element<Space>(
      x, i, lanes, false,
      [](const std::byte* memory, std::uint64_t& into, std::uint32_t shift, std::uint32_t bytes) {
        std::uint64_t value = 0;
        std::memcpy(&value, memory, bytes);
        into = shift == 0 ? value : into | value << shift;
      });
}

template <class Space>
void store_fragment(executor& x, const instruction& i, std::uint32_t lanes) {
  for_each_element<Space>(
      x, i, lanes, true,
      [](std::byte* memory, const std::uint64_t& from, std::uint32_t shift, std::uint32_t bytes) {
        const std::uint64_t value = from >> shift;
        std::memcpy(memory, &value, bytes);
      });
}

template <template <class> class Run>
handler in_space(std::optional<state_space> space) {
  if (!space) return nullptr;
  switch (*space) {
    case state_space::generic:
      return Run<generic_space>::run;
    case state_space::shared:
      return Run<shared_space>::run;
    case state_space::global:
      return Run<global_space>::run;
    default:
      return nullptr;
  }
}
template <class Space>
struct loading {
  static constexpr handler run = load_fragment<Space>;
};
template <class Space>
struct storing {
  static constexpr handler run = store_fragment<Space>;
};

type register_type(type element) {
  return element == type::f64 ? type::f64 : element == type::f32 ? type::f32 : type::b32;
}

void stage_address(builder& b, const syntax::operand& where) {
  const address_operand a = decode_address(b, where);
  const std::uint32_t uses[] = {add_to_address(b, a)};
  stage(b, uses, type::u64, slot_address);
}

bool decode_wmma(builder& b, const form& f) {
  const bool load = f.has("load"), store = f.has("store");
  const auto shape = find_matrix_shape(f);
  if ((!load && !store) || !shape || f.types.size() != 1) return false;
  transfer t;
  t.shape = *shape;
  t.element = f.t();
  t.by_rows = f.has("row");
  if (!t.by_rows && !f.has("col")) return false;
  t.role = f.has("a")   ? fragment_role::a
           : f.has("b") ? fragment_role::b
                        : fragment_role::accumulator;
  const auto& fragment = f.operand(load ? 0 : 1);
  if (fragment.kind != syntax::operand::form::vector) return false;
  t.registers = static_cast<std::uint32_t>(fragment.items.size());
  if (t.registers == 0 || t.registers > 8) return false;
  const handler run =
      load ? in_space<loading>(decode_space(f)) : in_space<storing>(decode_space(f));
  if (run == nullptr) return false;
  stage_address(b, f.operand(load ? 1 : 0));
  // Without a stride the matrix is as narrow as it can be.
  const std::uint32_t rows = t.role == fragment_role::b ? t.shape.k : t.shape.m;
  const std::uint32_t columns = t.role == fragment_role::a ? t.shape.k : t.shape.n;
  const std::uint32_t stride[] = {f.operand_count() > 2
                                      ? b.source(f.operand(2), type::u32)
                                      : b.constant(type::u32, t.by_rows ? columns : rows)};
  stage(b, stride, type::u32, slot_stride);
  const type in_register = register_type(t.element);
  if (store) stage(b, b.sources(fragment, in_register, t.registers), in_register, slot_fragment);
  b.emit(run, {}, {}, flow::checked).immediate = pack(t);
  if (load)
    unstage(b, b.destinations(fragment, in_register, t.registers), in_register, slot_fragment);
  return true;
}

// Matrices of 8 x 8 elements of 16 bits. The address of row r of matrix n is lane 8n + r's.
// count: matrices; extra: whether they are transposed.
template <bool Store>
void move_matrices(executor& x, const instruction& i, std::uint32_t lanes) {
  shared_space space(x, i);
  for (std::uint32_t n = 0; n < i.count; ++n) {
    for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const auto l = static_cast<std::uint32_t>(std::countr_zero(rest));
      std::uint64_t& word = staged(x, slot_fragment + n, l);
      if (!Store) word = 0;
      for (std::uint32_t part = 0; part < 2; ++part) {
        std::uint32_t row = l / 4, column = l % 4 * 2 + part;
        if (i.extra != 0) std::swap(row, column);
        const std::uint64_t start = staged(x, slot_address, n * 8 + row);
        if (start % 16 != 0) {
          raise_misaligned(x, i, start);
          return;
        }
        std::byte* at = space.at(start + column * 2, l, 2, Store);
        if (at == nullptr) return;
        if (Store) {
          const auto half = static_cast<std::uint16_t>(word >> (16 * part));
          std::memcpy(at, &half, sizeof half);
        } else {
          std::uint16_t half = 0;
          std::memcpy(&half, at, sizeof half);
          word |= std::uint64_t{half} << (16 * part);
        }
      }
    }
  }
}

bool decode_matrices(builder& b, const form& f, bool store) {
  const std::uint32_t count = f.has("x4") ? 4 : f.has("x2") ? 2 : f.has("x1") ? 1 : 0;
  if (count == 0 || !f.has("m8n8") || decode_space(f) == state_space::global ||
      f.types.size() != 1 || f.t() != type::b16)
    return false;
  const auto& fragment = f.operand(store ? 1 : 0);
  stage_address(b, f.operand(store ? 0 : 1));
  if (store) stage(b, b.sources(fragment, type::b32, count), type::b32, slot_fragment);
  emit_warp_barrier(b);
  instruction& i =
      b.emit(store ? move_matrices<true> : move_matrices<false>, {}, {}, flow::checked);
  i.count = static_cast<std::uint8_t>(count);
  i.extra = f.has("trans") ? 1 : 0;
  if (!store) unstage(b, b.destinations(fragment, type::b32, count), type::b32, slot_fragment);
  return true;
}

bool decode_ldmatrix(builder& b, const form& f) {
  return decode_matrices(b, f, false);
}
bool decode_stmatrix(builder& b, const form& f) {
  return decode_matrices(b, f, true);
}

constexpr decode_entry entries[] = {
    {"wmma", decode_wmma}, {"ldmatrix", decode_ldmatrix}, {"stmatrix", decode_stmatrix}};

}  // namespace

decode_table matrix_memory_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
