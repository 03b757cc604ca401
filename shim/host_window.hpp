// SPDX-License-Identifier: Apache-2.0
// Where pinned memory comes from: one window of addresses that is free in this process and in the
// server's, agreed on when the first pinned memory is asked for. Without a window, or when it is
// full, pinned memory lies anywhere.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace gpuwire::shim {

class host_window {
 public:
  // Readable and writable zeros, whole pages; null if there is no memory.
  void* allocate(std::uint64_t bytes);
  void release(void* memory, std::uint64_t bytes);

 private:
  bool is_inside(std::uint64_t address) const { return address - base_ < bytes_; }
  void agree();
  bool try_window(std::uint64_t address, std::uint64_t bytes);
  std::uint64_t cut(std::uint64_t bytes);
  void give_back(std::uint64_t address, std::uint64_t bytes);

  std::mutex mutex_;
  bool tried_ = false;
  std::uint64_t base_ = 0, bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> free_;  // address -> bytes
};

host_window& pinned_window();

}  // namespace gpuwire::shim
