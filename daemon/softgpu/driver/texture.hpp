// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects. A kernel sees those that existed when it was launched.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "../ptx/texture.hpp"
#include "context.hpp"
#include "handles.hpp"

namespace gpuwire::softgpu {

// What the program gave, to be given back.
struct texture_object {
  std::shared_ptr<context> owner;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC sampling{};
  CUDA_RESOURCE_VIEW_DESC view{};
  std::shared_ptr<const ptx::texture> seen;
};

// API threads only; kernels work on a snapshot.
class texture_objects {
 public:
  static texture_objects& instance();

  // Gives the object its handle.
  std::uint64_t add(texture_object made, ptx::texture seen);
  // Refuse with CUDA_ERROR_INVALID_VALUE.
  texture_object get(std::uint64_t handle, bool surface) const;
  void remove(std::uint64_t handle, bool surface);
  void remove_of_context(const context& which);
  // All objects of now; null while there are none.
  std::shared_ptr<const ptx::texture_set> snapshot() const;

 private:
  void publish();
  const texture_object& at(std::uint64_t handle, bool surface) const;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<texture_object>> objects_;
  std::uint64_t generation_ = 0;
  std::shared_ptr<const ptx::texture_set> published_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace gpuwire::softgpu
