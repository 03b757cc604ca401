// SPDX-License-Identifier: Apache-2.0
#include "texture_operands.hpp"

#include "memory_access.hpp"
#include "staging.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

constexpr struct {
  std::string_view word;
  image_geometry shape;
} geometries[] = {
    {"1d", {1, false, false}},  {"2d", {2, false, false}}, {"3d", {3, false, false}},
    {"a1d", {1, true, false}},  {"a2d", {2, true, false}}, {"cube", {3, false, true}},
    {"acube", {3, true, true}},
};

// Which attribute of an image txq and suq ask for.
enum class query : std::uint8_t { width, height, depth, levels, layers, normalised };

std::uint32_t answer(const texture& of, query what) {
  const auto& base = of.levels.front();
  switch (what) {
    case query::width:
      return base.width;
    case query::height:
      return base.height;
    case query::depth:
      return of.layered || of.cube ? 1 : base.depth;
    case query::levels:
      return static_cast<std::uint32_t>(of.levels.size());
    case query::layers:
      return of.layered ? base.depth : 0;
    default:
      return of.normalised_coordinates ? 1 : 0;
  }
}

// o = d, handle. extra: the query; sub: of a surface.
void run_query(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* handles = x.in(i.o[1]);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const texture* of = find_texture(x, i, get<std::uint64_t>(handles, l), i.sub != 0);
    if (of == nullptr) return;
    put(d, l, answer(*of, static_cast<query>(i.extra)));
  }
}

bool decode_query(builder& b, const form& f) {
  constexpr struct {
    std::string_view word;
    query what;
  } known[] = {
      {"width", query::width},       {"height", query::height},
      {"depth", query::depth},       {"num_mipmap_levels", query::levels},
      {"array_size", query::layers}, {"normalized_coords", query::normalised},
  };
  if (f.types.size() != 1 || bytes_of(f.t()) != 4 || f.operand_count() != 2 || f.has("level"))
    return false;
  const auto& where = f.operand(1);
  if (where.kind != syntax::operand::form::address || where.items.empty() ||
      b.declared_type(where.items[0]) == std::nullopt)
    return false;
  for (const auto& one : known) {
    if (!f.has(one.word)) continue;
    instruction& i = b.emit(run_query, {b.destination(f.operand(0), f.t())},
                            {b.source(where.items[0], type::u64)}, flow::checked);
    i.extra = static_cast<std::uint8_t>(one.what);
    i.sub = f.statement->name == "suq" ? 1 : 0;
    return true;
  }
  return false;
}

constexpr decode_entry entries[] = {{"txq", decode_query}, {"suq", decode_query}};

}  // namespace

std::optional<image_geometry> find_geometry(const form& f) {
  for (const auto& one : geometries)
    if (f.has(one.word)) return one.shape;
  return std::nullopt;
}

bool stage_image_handle(builder& b, const syntax::operand& where, std::uint32_t slot) {
  if (where.kind != syntax::operand::form::address || where.items.size() != 2) return false;
  const auto declared = b.declared_type(where.items[0]);
  if (!declared || lane_bytes(*declared) != 8) return false;
  const std::uint32_t uses[] = {b.source(where.items[0], type::u64)};
  stage(b, uses, type::u64, slot);
  return true;
}

bool stage_coordinates(builder& b, const syntax::operand& o, const image_geometry& shape, type t,
                       std::uint32_t first, std::uint32_t layer_slot) {
  std::vector<const syntax::operand*> items;
  if (o.kind == syntax::operand::form::vector) {
    for (const auto& item : o.items) items.push_back(&item);
  } else {
    items.push_back(&o);
  }
  if (items.size() < shape.dimensions + (shape.layered ? 1 : 0)) return false;
  auto next = items.begin();
  const std::uint32_t layer[] = {shape.layered ? b.source(**next++, type::u32)
                                               : b.constant(type::u32, 0)};
  std::vector<std::uint32_t> uses;
  for (std::uint32_t axis = 0; axis < shape.dimensions; ++axis)
    uses.push_back(b.source(**next++, t));
  stage(b, layer, type::u32, layer_slot);
  stage(b, uses, t, first);
  return true;
}

const texture* find_texture(executor& x, const instruction& i, std::uint64_t handle, bool surface) {
  const auto& all = x.shared().textures;
  const texture* found = all ? all->find(handle) : nullptr;
  if (found != nullptr && found->surface == surface) return found;
  raise_illegal(x, i, handle, surface ? "surface object" : "texture object");
  return nullptr;
}

decode_table image_query_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
