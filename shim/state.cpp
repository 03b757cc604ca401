// SPDX-License-Identifier: Apache-2.0
#include "shim/state.hpp"

#include "shim/images.hpp"

namespace gpuwire::shim {

process_state& state() {
  static auto* the_state = new process_state;
  return *the_state;
}

wire::handle_id handle_minter::mint() {
  // The daemon bounds the index; a program that holds a million streams has another problem.
  constexpr std::uint32_t index_end = 1u << 20;
  std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    const auto [index, generation] = free_.back();
    free_.pop_back();
    return wire::make_handle(0, kind_, generation, index);
  }
  if (next_ == index_end) return 0;
  return wire::make_handle(0, kind_, 1, next_++);
}

std::uint32_t handle_minter::end() {
  std::lock_guard lock(mutex_);
  return next_;
}

void handle_minter::give_back(wire::handle_id id) {
  auto generation = static_cast<std::uint16_t>(wire::handle_generation(id) + 1);
  if (generation == 0) generation = 1;
  std::lock_guard lock(mutex_);
  free_.emplace_back(wire::handle_index(id), generation);
}

}  // namespace gpuwire::shim
