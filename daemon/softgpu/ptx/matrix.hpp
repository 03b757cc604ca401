// SPDX-License-Identifier: Apache-2.0
// Which lane holds which elements of a matrix fragment. A is M x K, B is K x N, C and D are M x N.
//
// The fragments of mma have the layout that PTX documents. Those of wmma are opaque: a row of A (a
// column of B) lies in one lane or in a few, and is held more than once where the fragment has more
// room than the matrix has elements, as on the hardware.
#pragma once

#include <cstdint>
#include <optional>

#include "type.hpp"

namespace gpuwire::softgpu::ptx {

struct form;

enum class fragment_role : std::uint8_t { a, b, accumulator };

struct matrix_shape {
  std::uint32_t m = 0, n = 0, k = 0;
};

// From a modifier such as m16n8k16.
std::optional<matrix_shape> find_matrix_shape(const form& f);

// `outer` is the row of A and C, the column of B; `inner` the other index.
struct element_place {
  std::uint32_t outer = 0, inner = 0;
};

// How many elements a register of the type holds.
constexpr std::uint32_t elements_per_register(type t) {
  switch (t) {
    case type::f16:
    case type::bf16:
      return 2;
    case type::u8:
    case type::s8:
      return 4;
    default:
      return 1;
  }
}

// Place of element `index` of a lane in a wmma fragment of `held` elements a lane.
constexpr element_place wmma_place(fragment_role role, const matrix_shape& shape,
                                   std::uint32_t held, std::uint32_t lane, std::uint32_t index) {
  const std::uint32_t outer = role == fragment_role::b ? shape.n : shape.m;
  const std::uint32_t inner = role == fragment_role::accumulator ? shape.n : shape.k;
  return {lane % outer, (lane / outer * held + index) % inner};
}

// The same of an mma fragment; `packed` elements lie in a register.
constexpr element_place mma_place(fragment_role role, const matrix_shape& shape,
                                  std::uint32_t packed, std::uint32_t lane, std::uint32_t index) {
  const std::uint32_t group = lane / 4, member = lane % 4;
  if (role == fragment_role::accumulator) return {group + 8 * (index / 2), member * 2 + index % 2};
  const std::uint32_t reg = index / packed, part = index % packed;
  const std::uint32_t inner = member * packed + part;
  if (role == fragment_role::b) return {group, inner + 4 * packed * reg};
  if (shape.m == 8) return {group, inner + 4 * packed * reg};
  return {group + 8 * (reg % 2), inner + 4 * packed * (reg / 2)};
}

}  // namespace gpuwire::softgpu::ptx
