// SPDX-License-Identifier: Apache-2.0
#include "texture.hpp"

#include <algorithm>

#include "guard.hpp"

namespace gpuwire::softgpu {

texture_objects& texture_objects::instance() {
  static auto* only = new texture_objects;
  return *only;
}

void texture_objects::publish() {
  auto next = std::make_shared<ptx::texture_set>();
  for (const auto& one : objects_) next->objects.push_back(one ? one->seen : nullptr);
  published_ = std::move(next);
}

std::uint64_t texture_objects::add(texture_object made, ptx::texture seen) {
  std::lock_guard lock(mutex_);
  auto free = std::find(objects_.begin(), objects_.end(), nullptr);
  const auto index = static_cast<std::uint64_t>(free - objects_.begin());
  require(index <= ptx::texture_set::index_mask, CUDA_ERROR_OUT_OF_MEMORY);
  // The generation makes a handle of a destroyed object be found out when its index is used again.
  const auto kind = seen.surface ? handle_kind::surface : handle_kind::texture;
  seen.handle = static_cast<std::uint64_t>(kind) << 52 | (++generation_ & 0xffffffff) << 20 | index;
  const std::uint64_t handle = seen.handle;
  made.seen = std::make_shared<ptx::texture>(std::move(seen));
  auto object = std::make_unique<texture_object>(std::move(made));
  if (free == objects_.end()) {
    objects_.push_back(std::move(object));
  } else {
    *free = std::move(object);
  }
  ++count_;
  publish();
  return handle;
}

const texture_object& texture_objects::at(std::uint64_t handle, bool surface) const {
  const std::uint64_t index = handle & ptx::texture_set::index_mask;
  require(index < objects_.size() && objects_[index] != nullptr &&
          objects_[index]->seen->handle == handle && objects_[index]->seen->surface == surface);
  return *objects_[index];
}

texture_object texture_objects::get(std::uint64_t handle, bool surface) const {
  std::lock_guard lock(mutex_);
  return at(handle, surface);
}

void texture_objects::remove(std::uint64_t handle, bool surface) {
  std::lock_guard lock(mutex_);
  at(handle, surface);
  objects_[handle & ptx::texture_set::index_mask].reset();
  --count_;
  publish();
}

void texture_objects::remove_of_context(const context& which) {
  std::lock_guard lock(mutex_);
  for (auto& one : objects_) {
    if (!one || one->owner.get() != &which) continue;
    one.reset();
    --count_;
  }
  publish();
}

std::shared_ptr<const ptx::texture_set> texture_objects::snapshot() const {
  if (count_.load() == 0) return nullptr;
  std::lock_guard lock(mutex_);
  return published_;
}

}  // namespace gpuwire::softgpu
