// SPDX-License-Identifier: Apache-2.0
#include "daemon/nvml/handles.hpp"

#include <algorithm>

namespace gpuwire::nvml {

wire::handle_id shared_handles::number_of(void* native, int kind) {
  if (native == nullptr) return 0;
  std::lock_guard lock(mutex_);
  auto& all = natives_[kind & 7];
  auto at = std::find(all.begin(), all.end(), native);
  if (at == all.end()) {
    if (all.size() == handles_max) return 0;
    at = all.insert(all.end(), native);
  }
  return wire::make_handle(0, static_cast<std::uint8_t>(kind), 0,
                           static_cast<std::uint32_t>(at - all.begin()));
}

std::optional<void*> shared_handles::find(wire::handle_id id, int kind) const {
  std::lock_guard lock(mutex_);
  const auto& all = natives_[kind & 7];
  const auto index = wire::handle_index(id);
  if (index >= all.size() || id != wire::make_handle(0, static_cast<std::uint8_t>(kind), 0, index))
    return std::nullopt;
  return all[index];
}

wire::handle_id owned_handles::add(void* native, int kind) {
  if (native == nullptr) return 0;
  auto at = std::find_if(entries_.begin(), entries_.end(),
                         [](const entry& e) { return e.native == nullptr; });
  if (at == entries_.end()) {
    if (entries_.size() == handles_max) return 0;
    at = entries_.insert(entries_.end(), entry{});
  }
  *at = {native, kind, static_cast<std::uint16_t>(at->generation + 1)};
  return wire::make_handle(0, static_cast<std::uint8_t>(kind), at->generation,
                           static_cast<std::uint32_t>(at - entries_.begin()));
}

std::optional<void*> owned_handles::find(wire::handle_id id, int kind) const {
  const auto index = wire::handle_index(id);
  if (index >= entries_.size()) return std::nullopt;
  const auto& e = entries_[index];
  if (e.native == nullptr || e.kind != kind ||
      id != wire::make_handle(0, static_cast<std::uint8_t>(kind), e.generation, index))
    return std::nullopt;
  return e.native;
}

void owned_handles::remove(void* native, int kind) {
  for (auto& e : entries_)
    if (e.native == native && e.kind == kind) e.native = nullptr;
}

}  // namespace gpuwire::nvml
