// SPDX-License-Identifier: Apache-2.0
// From a statement to the family that knows its opcode.
#include <array>

#include "builder.hpp"

namespace gpuwire::softgpu::ptx {

bool form::has(std::string_view word) const {
  for (const auto w : words)
    if (w == word) return true;
  return false;
}

type form::t(std::size_t index) const {
  if (index >= types.size())
    fail_syntax(line(), "'" + std::string(statement->name) + "' lacks a type");
  return types[index];
}

std::uint32_t form::vector() const {
  if (has("v2")) return 2;
  if (has("v4")) return 4;
  if (has("v8")) return 8;
  return 1;
}

const syntax::operand& form::operand(std::size_t index) const {
  if (index >= statement->operands.size())
    fail_syntax(line(), "'" + std::string(statement->name) + "' lacks an operand");
  return statement->operands[index];
}

rounding form::round() const {
  for (const auto w : words) {
    if (w == "rn" || w == "rni") return rounding::nearest;
    if (w == "rz" || w == "rzi") return rounding::zero;
    if (w == "rm" || w == "rmi") return rounding::down;
    if (w == "rp" || w == "rpi") return rounding::up;
  }
  return rounding::none;
}

namespace {

using decoder = bool (*)(builder&, const form&);

const std::unordered_multimap<std::string_view, decoder>& decoders() {
  static const auto map = [] {
    std::unordered_multimap<std::string_view, decoder> result;
    for (const decode_table& table :
         {integer_instructions(),     wide_integer_instructions(), bit_instructions(),
          floating_instructions(),    approximate_instructions(),  half_instructions(),
          compare_instructions(),     convert_instructions(),      convert_eight_instructions(),
          move_instructions(),        memory_instructions(),       copy_instructions(),
          cluster_instructions(),     atomic_instructions(),       warp_instructions(),
          barrier_instructions(),     mbarrier_instructions(),     control_instructions(),
          call_instructions(),        video_instructions(),        texture_instructions(),
          image_query_instructions(), surface_instructions(),     matrix_instructions(),
          matrix_memory_instructions()})
      for (const decode_entry& entry : table) result.emplace(entry.opcode, entry.decode);
    return result;
  }();
  return map;
}

std::string full_name(const syntax::statement& s) {
  std::string name(s.name);
  for (const auto modifier : s.modifiers) name.append(".").append(modifier);
  return name;
}

}  // namespace

void decode(builder& b, const syntax::statement& s) {
  form f;
  f.statement = &s;
  for (const auto modifier : s.modifiers) {
    if (const auto t = parse_type(modifier))
      f.types.push_back(*t);
    else
      f.words.push_back(modifier);
  }
  const auto [first, last] = decoders().equal_range(s.name);
  for (auto entry = first; entry != last; ++entry)
    if (entry->second(b, f)) return;
  fail(compile_error_kind::unknown_instruction, s.line,
       "unknown instruction '" + full_name(s) + "'");
}

}  // namespace gpuwire::softgpu::ptx
