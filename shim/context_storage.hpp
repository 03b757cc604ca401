// SPDX-License-Identifier: Apache-2.0
// Values that NVIDIA's libraries keep per context and key, with a destructor that runs when the
// context dies.
#pragma once

#include <cuda.h>

#include <map>
#include <mutex>

namespace gpuwire::shim {

class context_storage {
 public:
  using destructor = void (*)(CUcontext context, void* key, void* value);

  void put(void* key, void* value, destructor at_end) {
    std::lock_guard lock(mutex_);
    values_[key] = {value, at_end};
  }
  bool get(void* key, void** value) const {
    std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return false;
    *value = found->second.value;
    return true;
  }
  // The destructor does not run: whoever deletes knows what it does.
  bool erase(void* key) {
    std::lock_guard lock(mutex_);
    return values_.erase(key) != 0;
  }
  // Called once the context is dead; destructors may call back into put, get and erase.
  void destroy_all(CUcontext context) {
    std::map<void*, item> gone;
    {
      std::lock_guard lock(mutex_);
      gone.swap(values_);
    }
    for (const auto& [key, entry] : gone)
      if (entry.at_end != nullptr) entry.at_end(context, key, entry.value);
  }

 private:
  struct item {
    void* value = nullptr;
    destructor at_end = nullptr;
  };
  mutable std::mutex mutex_;
  std::map<void*, item> values_;
};

}  // namespace gpuwire::shim
