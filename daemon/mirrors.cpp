// SPDX-License-Identifier: Apache-2.0
#include "daemon/mirrors.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/limits.hpp"
#include "daemon/worker.hpp"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace gpuwire::daemon {
namespace {

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// Pinned memory is taken from everybody else on the machine.
std::uint64_t budget() {
  static const std::uint64_t bytes = [] {
    const auto pages = ::sysconf(_SC_PHYS_PAGES);
    const auto quarter = pages > 0 ? static_cast<std::uint64_t>(pages) * page_bytes() / 4 : 0;
    return std::min(limits::mirror_bytes_max, quarter);
  }();
  return bytes;
}

}  // namespace

mirror::~mirror() {
  if (pages_ != nullptr) ::munmap(pages_, pages_bytes_);
}

bool mirror::map(std::uint64_t client_address, std::uint64_t bytes) {
  const auto in_page = client_address % page_bytes();
  std::uint64_t whole = 0;
  if (__builtin_add_overflow(in_page + page_bytes() - 1, bytes, &whole)) return false;
  whole -= whole % page_bytes();
  const auto protection = PROT_READ | PROT_WRITE;
  const auto flags = MAP_PRIVATE | MAP_ANONYMOUS;
  auto* wanted = reinterpret_cast<void*>(client_address - in_page);
  void* pages = ::mmap(wanted, whole, protection, flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (pages != MAP_FAILED && pages != wanted) {  // a kernel that does not know the flag
    ::munmap(pages, whole);
    pages = MAP_FAILED;
  }
  if (pages == MAP_FAILED) pages = ::mmap(nullptr, whole, protection, flags, -1, 0);
  if (pages == MAP_FAILED) return false;
  pages_ = pages;
  pages_bytes_ = whole;
  memory_ = static_cast<std::byte*>(pages) + in_page;
  client_address_ = client_address;
  bytes_ = bytes;
  return true;
}

CUresult mirrors::create(std::uint64_t range, std::uint64_t client_address, std::uint64_t bytes,
                         std::uint32_t context) {
  const auto& d = worker_.driver();
  if (d.cuMemHostRegister_v2 == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  {
    std::lock_guard lock(mutex_);
    if (bytes == 0 || by_range_.contains(range)) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > budget() || bytes_ > budget() - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    bytes_ += bytes;
  }
  std::shared_ptr<mirror> fresh(new mirror);
  auto result = fresh->map(client_address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS)
    result = d.cuMemHostRegister_v2(fresh->memory_, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  std::lock_guard lock(mutex_);
  if (result != CUDA_SUCCESS) {
    bytes_ -= bytes;
    return result;
  }
  fresh->range_ = range;
  fresh->pinned_by_ = context;
  by_range_[range] = std::move(fresh);
  return CUDA_SUCCESS;
}

std::shared_ptr<mirror> mirrors::find(std::uint64_t range) const {
  std::lock_guard lock(mutex_);
  const auto found = by_range_.find(range);
  return found == by_range_.end() ? nullptr : found->second;
}

CUresult mirrors::map_for_device(const std::shared_ptr<mirror>& m, std::uint32_t context,
                                 CUdeviceptr& device) {
  const auto& d = worker_.driver();
  std::uint32_t pinned_by = 0;
  {
    std::lock_guard lock(mutex_);
    pinned_by = m->pinned_by_;
    device = m->device_;
  }
  if (pinned_by != 0 && device != 0) return CUDA_SUCCESS;
  if (d.cuMemHostUnregister == nullptr || d.cuMemHostGetDevicePointer_v2 == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (pinned_by != 0) {
    if (const auto r = d.cuMemHostUnregister(m->memory_); r != CUDA_SUCCESS) return r;
  }
  auto result = d.cuMemHostRegister_v2(m->memory_, static_cast<std::size_t>(m->bytes_),
                                       CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  const bool pinned = result == CUDA_SUCCESS;
  if (pinned) result = d.cuMemHostGetDevicePointer_v2(&device, m->memory_, 0);
  std::lock_guard lock(mutex_);
  m->pinned_by_ = pinned ? context : 0;
  m->device_ = result == CUDA_SUCCESS ? device : 0;
  return result;
}

void mirrors::remove(std::uint64_t range) {
  std::shared_ptr<mirror> gone;
  bool pinned = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = by_range_.find(range);
    if (found == by_range_.end()) return;
    gone = std::move(found->second);
    by_range_.erase(found);
    bytes_ -= gone->bytes_;
    pinned = gone->pinned_by_ != 0;
  }
  if (pinned && worker_.driver().cuMemHostUnregister)
    worker_.driver().cuMemHostUnregister(gone->memory_);
}

void mirrors::context_gone(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  for (auto& [range, m] : by_range_) {
    if (m->pinned_by_ != context) continue;
    m->pinned_by_ = 0;
    m->device_ = 0;
  }
}

namespace custom {

outcome mirror_create(call_context& c, const msg::mirror_create::request& q) {
  using call = msg::mirror_create;
  if (q.bytes == 0) return c.malformed();
  auto& w = c.owner();
  call::reply r;
  const auto result = w.mirrors_of_client.create(q.range, q.address, q.bytes, c.ticket().context);
  if (const auto m = w.mirrors_of_client.find(q.range); m && result == CUDA_SUCCESS) {
    r.at_client_address = m->at_client_address();
    r.takes_uploads = w.uploads_of_client.works(c.ticket().context);
  }
  return c.finish<call>(result, r);
}

outcome mirror_release(call_context& c, const msg::mirror_release::request& q) {
  auto& w = c.owner();
  w.settle_range(q.range);
  w.mirrors_of_client.remove(q.range);
  return c.finish<msg::mirror_release>(CUDA_SUCCESS, {});
}

}  // namespace custom
}  // namespace gpuwire::daemon
