// SPDX-License-Identifier: Apache-2.0
// Tables of live objects behind the opaque CUDA handles.
//
// A handle is a number of our own, never an address: it is looked up and never dereferenced, its
// kind is part of it, and it is not given out twice. So a stale handle, one of another kind or a
// random number is always found out. Any API thread may use a table; compute threads never do.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace gpuwire::softgpu {

enum class handle_kind : std::uint64_t {
  context = 1,
  stream,
  event,
  module,
  function,
  library,
  kernel,
  pool,
  physical,
  array,
  mipmapped_array,
  texture,
  surface,
  graph,
  graph_node,
  graph_exec,
  user_object,
  link = 100
};

template <typename Object, typename Handle, handle_kind Kind>
class handle_table {
 public:
  // The handle is known before the object is visible, so that an object can hold its own handle.
  Handle mint() {
    std::unique_lock lock(mutex_);
    return reinterpret_cast<Handle>((static_cast<std::uint64_t>(Kind) << 40) | (++serial_ << 4));
  }

  void insert(Handle handle, std::shared_ptr<Object> object) {
    std::unique_lock lock(mutex_);
    objects_[handle] = std::move(object);
  }

  std::shared_ptr<Object> find(Handle handle) const {
    std::shared_lock lock(mutex_);
    auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> remove(Handle handle) {
    std::unique_lock lock(mutex_);
    auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  // Takes out every object for which `condition` holds. They are returned so that they die outside
  // the lock.
  template <typename Condition>
  std::vector<std::shared_ptr<Object>> remove_if(Condition condition) {
    std::vector<std::shared_ptr<Object>> removed;
    std::unique_lock lock(mutex_);
    for (auto entry = objects_.begin(); entry != objects_.end();) {
      if (condition(*entry->second)) {
        removed.push_back(std::move(entry->second));
        entry = objects_.erase(entry);
      } else {
        ++entry;
      }
    }
    return removed;
  }

  template <typename Visit>
  void for_each(Visit visit) const {
    std::shared_lock lock(mutex_);
    for (const auto& [handle, object] : objects_) visit(*object);
  }

  // The same without holding the lock during the visits.
  template <typename Visit>
  void for_each_copy(Visit visit) const {
    std::vector<std::shared_ptr<Object>> copy;
    {
      std::shared_lock lock(mutex_);
      for (const auto& [handle, object] : objects_) copy.push_back(object);
    }
    for (const auto& object : copy) visit(object);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::uint64_t serial_ = 0;
  std::unordered_map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace gpuwire::softgpu
