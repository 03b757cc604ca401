// SPDX-License-Identifier: Apache-2.0
// Handles of the host's NVML as numbers that clients may hold. What belongs to the machine
// (devices, units, instances) is shared by all clients and keeps its number for as long as the
// helper lives; what a client makes (sets of events, samples) is its own. Numbers are looked up,
// never followed.
//
// shared_handles: any thread. owned_handles: the thread of its connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "wire/handle.hpp"

namespace gpuwire::nvml {

class shared_handles {
 public:
  wire::handle_id number_of(void* native, int kind);
  std::optional<void*> find(wire::handle_id id, int kind) const;

 private:
  static constexpr std::size_t handles_max = 1u << 16;
  mutable std::mutex mutex_;
  std::vector<void*> natives_[8];
};

class owned_handles {
 public:
  // 0 when the client has too many.
  wire::handle_id add(void* native, int kind);
  std::optional<void*> find(wire::handle_id id, int kind) const;
  void remove(void* native, int kind);

  template <class Function>
  void for_each(Function&& f) const {
    for (const auto& e : entries_)
      if (e.native != nullptr) f(e.native, e.kind);
  }

 private:
  static constexpr std::size_t handles_max = 4096;
  struct entry {
    void* native = nullptr;
    int kind = 0;
    std::uint16_t generation = 0;
  };
  std::vector<entry> entries_;
};

}  // namespace gpuwire::nvml
