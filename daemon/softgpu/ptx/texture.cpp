// SPDX-License-Identifier: Apache-2.0
// tex, tld4 and txq on texture objects. Texture references with a sampler of their own, depth
// comparison, texel offsets and multisampled textures are refused.
#include <optional>

#include "memory_access.hpp"
#include "staging.hpp"
#include "texture_operands.hpp"
#include "texture_sampler.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

namespace slots {
constexpr std::uint32_t handle = 0, coordinate = 1, layer = 4, level = 5, dx = 5, dy = 8,
                        result = 16;
}

// Bits of instruction::sub.
enum : std::uint32_t {
  dimension_bits = 3,
  is_cube = 4,
  is_integer = 8,
  has_level = 16,
  has_gradients = 32,
  is_gather = 64,
  channel_shift = 8,
};

class launch_memory final : public texel_memory {
 public:
  explicit launch_memory(executor& x) : x_(x) {}
  const std::byte* at(std::uint64_t address, std::uint32_t bytes) override {
    const cached_range* range = x_.find_range(address, bytes);
    return range == nullptr ? nullptr : range->find(address, bytes);
  }

 private:
  executor& x_;
};

sample_request request_of(executor& x, const instruction& i, std::uint32_t l) {
  sample_request wanted;
  wanted.dimensions = i.sub & dimension_bits;
  wanted.cube = (i.sub & is_cube) != 0;
  wanted.integer = (i.sub & is_integer) != 0;
  for (std::uint32_t axis = 0; axis < wanted.dimensions; ++axis) {
    const std::uint32_t word = staged_word(x, slots::coordinate + axis, l);
    if (wanted.integer)
      wanted.texel[axis] = static_cast<std::int32_t>(word);
    else
      wanted.at[axis] = std::bit_cast<float>(word);
    if ((i.sub & has_gradients) != 0) {
      wanted.dx[axis] = staged_float(x, slots::dx + axis, l);
      wanted.dy[axis] = staged_float(x, slots::dy + axis, l);
    }
  }
  wanted.layer = staged_word(x, slots::layer, l);
  if ((i.sub & has_gradients) != 0) wanted.choice = sample_request::level_choice::gradients;
  if ((i.sub & has_level) != 0) {
    wanted.choice = sample_request::level_choice::given;
    wanted.level =
        wanted.integer
            ? static_cast<float>(static_cast<std::int32_t>(staged_word(x, slots::level, l)))
            : staged_float(x, slots::level, l);
  }
  return wanted;
}

void fetch(executor& x, const instruction& i, std::uint32_t lanes) {
  launch_memory memory(x);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const texture* from = find_texture(x, i, staged(x, slots::handle, l), false);
    if (from == nullptr) return;
    const auto wanted = request_of(x, i, l);
    const auto result = (i.sub & is_gather) != 0
                            ? gather(*from, wanted, i.sub >> channel_shift & 3, memory)
                            : sample(*from, wanted, memory);
    if (!result) {
      raise_illegal(x, i, reinterpret_cast<std::uint64_t>(from->levels.front().data), "texture");
      return;
    }
    for (std::uint32_t n = 0; n < 4; ++n) staged(x, slots::result + n, l) = (*result)[n];
  }
}

// The handle and the coordinates of [handle, {c, ...}], after which the slots hold them.
bool stage_place(builder& b, const form& f, const image_geometry& shape, type coordinate) {
  const auto& where = f.operand(1);
  if (!stage_image_handle(b, where, slots::handle)) return false;
  return stage_coordinates(b, where.items[1], shape, coordinate, slots::coordinate, slots::layer);
}

bool stage_vector(builder& b, const syntax::operand& o, std::uint32_t count, std::uint32_t first) {
  std::vector<std::uint32_t> uses;
  if (o.kind != syntax::operand::form::vector) {
    if (count != 1) return false;
    uses.push_back(b.source(o, type::f32));
  } else {
    if (o.items.size() < count) return false;
    for (std::uint32_t n = 0; n < count; ++n) uses.push_back(b.source(o.items[n], type::f32));
  }
  stage(b, uses, type::f32, first);
  return true;
}

void emit_fetch(builder& b, std::uint32_t sub, std::span<const std::uint32_t> d) {
  b.emit(fetch, {}, {}, flow::checked).sub = sub;
  unstage(b, d, type::b32, slots::result);
}

bool decode_tex(builder& b, const form& f) {
  if (f.types.size() != 2 || bytes_of(f.t(0)) != 4 || bytes_of(f.t(1)) != 4) return false;
  const auto shape = find_geometry(f);
  const std::uint32_t width = f.vector();
  if (!shape || (width != 4 && width != 1)) return false;
  const bool level = f.has("level"), gradients = f.has("grad");
  const std::size_t operands = level ? 3 : gradients ? 4 : 2;
  if (f.operand_count() != operands || f.has("base")) return false;
  const type coordinate = f.t(1) == type::s32 ? type::s32 : type::f32;
  const auto d = b.destinations(f.operand(0), f.t(0), width);
  if (!stage_place(b, f, *shape, coordinate)) return false;
  std::uint32_t sub = shape->dimensions | (shape->cube ? std::uint32_t{is_cube} : 0u) |
                      (coordinate == type::s32 ? std::uint32_t{is_integer} : 0u);
  if (level) {
    const std::uint32_t uses[] = {b.source(f.operand(2), coordinate)};
    stage(b, uses, coordinate, slots::level);
    sub |= has_level;
  }
  if (gradients) {
    if (!stage_vector(b, f.operand(2), shape->dimensions, slots::dx) ||
        !stage_vector(b, f.operand(3), shape->dimensions, slots::dy))
      return false;
    sub |= has_gradients;
  }
  emit_fetch(b, sub, d);
  return true;
}

bool decode_gather(builder& b, const form& f) {
  if (f.types.size() != 2 || bytes_of(f.t(0)) != 4 || f.t(1) != type::f32) return false;
  const auto shape = find_geometry(f);
  if (!shape || f.vector() != 4 || f.operand_count() != 2) return false;
  if (shape->dimensions != 2 && !shape->cube) return false;
  constexpr std::string_view names[] = {"r", "g", "b", "a"};
  std::uint32_t channel = 0;
  while (channel < 4 && !f.has(names[channel])) ++channel;
  if (channel == 4) return false;
  const auto d = b.destinations(f.operand(0), f.t(0), 4);
  if (!stage_place(b, f, *shape, type::f32)) return false;
  emit_fetch(b,
             shape->dimensions | (shape->cube ? std::uint32_t{is_cube} : 0u) | is_gather |
                 channel << channel_shift,
             d);
  return true;
}

constexpr decode_entry entries[] = {{"tex", decode_tex}, {"tld4", decode_gather}};

}  // namespace

decode_table texture_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
