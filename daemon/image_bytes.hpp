// SPDX-License-Identifier: Apache-2.0
// Device code as it came from a client, put together as the driver expects to find it in memory:
// parts one after the other, zeros behind them, and a fatbin wrapper that points to them where
// there was one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "wire/server.hpp"

namespace gpuwire::daemon {

class image_bytes final : public wire::bulk_sink {
 public:
  // Null when the system has no memory. Pages come into being as they are written, so an announced
  // size costs nothing.
  static std::shared_ptr<image_bytes> make(std::uint64_t bytes);
  ~image_bytes() override;

  void fill(std::span<const std::byte> data);
  // Waits until the bulk data is complete; false when the session ends before.
  bool wait();

  // Lays a wrapper over the parts. `part_bytes` without padding; false when they do not add up to
  // the image.
  bool wrap(std::uint32_t version, std::span<const std::uint64_t> part_bytes);
  // What the driver is given.
  const void* pointer() const {
    return wrapper_.magic != 0 ? static_cast<const void*>(&wrapper_) : data_;
  }

  std::span<std::byte> place(std::uint64_t offset, std::uint32_t bytes) override;
  void arrived(std::uint64_t offset, std::uint32_t bytes) override;
  void lost() override;

 private:
  struct fatbin_wrapper {
    std::uint32_t magic = 0, version = 0;
    const void* data = nullptr;
    const void* filename_or_fatbins = nullptr;
  };
  static_assert(sizeof(fatbin_wrapper) == 24);

  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0, mapped_ = 0;
  fatbin_wrapper wrapper_;
  std::vector<const void*> prelinked_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t arrived_ = 0;
  bool lost_ = false;
};

}  // namespace gpuwire::daemon
