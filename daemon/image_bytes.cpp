// SPDX-License-Identifier: Apache-2.0
#include "daemon/image_bytes.hpp"

#include <sys/mman.h>

#include <cstring>

#include "wire/codec.hpp"

namespace gpuwire::daemon {
namespace {
constexpr std::uint32_t wrapper_magic = 0x466243B1;
// PTX text ends in NUL; a client that forgot it must not make the driver read on.
constexpr std::uint64_t zeros_behind = 64;
}  // namespace

std::shared_ptr<image_bytes> image_bytes::make(std::uint64_t bytes) {
  auto image = std::make_shared<image_bytes>();
  image->bytes_ = bytes;
  image->mapped_ = bytes + zeros_behind;
  void* memory = ::mmap(nullptr, image->mapped_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    image->mapped_ = 0;
    return nullptr;
  }
  image->data_ = static_cast<std::byte*>(memory);
  return image;
}

image_bytes::~image_bytes() {
  if (mapped_ != 0) ::munmap(data_, mapped_);
}

void image_bytes::fill(std::span<const std::byte> data) {
  if (!data.empty()) std::memcpy(data_, data.data(), data.size());
}

bool image_bytes::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return lost_ || arrived_ >= bytes_; });
  return !lost_;
}

bool image_bytes::wrap(std::uint32_t version, std::span<const std::uint64_t> part_bytes) {
  if (part_bytes.empty()) return false;
  std::uint64_t offset = 0;
  std::vector<const void*> parts;
  for (const auto bytes : part_bytes) {
    if (bytes > bytes_ - offset) return false;
    parts.push_back(data_ + offset);
    const auto padded = wire::padded_to_8(bytes);
    if (padded > bytes_ - offset) return false;
    offset += padded;
  }
  if (offset != bytes_) return false;
  wrapper_.magic = wrapper_magic;
  wrapper_.version = version;
  wrapper_.data = parts[0];
  prelinked_.assign(parts.begin() + 1, parts.end());
  prelinked_.push_back(nullptr);
  wrapper_.filename_or_fatbins =
      version == 2 ? static_cast<const void*>(prelinked_.data()) : nullptr;
  return true;
}

std::span<std::byte> image_bytes::place(std::uint64_t offset, std::uint32_t bytes) {
  if (offset > bytes_ || bytes > bytes_ - offset) return {};
  return {data_ + offset, bytes};
}

void image_bytes::arrived(std::uint64_t, std::uint32_t bytes) {
  std::lock_guard lock(mutex_);
  arrived_ += bytes;
  changed_.notify_all();
}

void image_bytes::lost() {
  std::lock_guard lock(mutex_);
  lost_ = true;
  changed_.notify_all();
}

}  // namespace gpuwire::daemon
