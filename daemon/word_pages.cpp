// SPDX-License-Identifier: Apache-2.0
#include "daemon/word_pages.hpp"

#include <sys/mman.h>

#include <array>

#include "daemon/worker.hpp"

namespace gpuwire::daemon {
namespace {
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t words_per_page = page_bytes / sizeof(std::uint32_t);
}  // namespace

// The memory is never unmapped: the GPU of a dying context may still write to it.
struct word_pages::page : std::enable_shared_from_this<word_pages::page> {
  std::mutex mutex;
  std::uint32_t* host = nullptr;
  CUdeviceptr device = 0;
  std::array<std::uint32_t, words_per_page> values{};
  std::vector<std::uint32_t> free;

  std::shared_ptr<counter_word> take() {
    std::lock_guard lock(mutex);
    if (free.empty()) return nullptr;
    const auto index = free.back();
    free.pop_back();
    auto* word =
        new counter_word{host + index, device + index * sizeof(std::uint32_t), values[index]};
    return {word, [page = shared_from_this(), index](counter_word* w) {
              std::lock_guard lock(page->mutex);
              page->values[index] = w->value;
              page->free.push_back(index);
              delete w;
            }};
  }
};

std::shared_ptr<counter_word> word_pages::take(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  auto& of_context = pages_[context];
  for (auto page = of_context.rbegin(); page != of_context.rend(); ++page) {
    if (auto word = (*page)->take()) return word;
  }
  auto fresh = make_page();
  if (!fresh) return nullptr;
  of_context.push_back(fresh);
  return fresh->take();
}

std::shared_ptr<word_pages::page> word_pages::make_page() {
  const auto& d = worker_.driver();
  if (d.cuMemHostRegister_v2 == nullptr || d.cuMemHostGetDevicePointer_v2 == nullptr)
    return nullptr;
  void* memory =
      ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  CUdeviceptr device = 0;
  const auto flags = CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE;
  if (d.cuMemHostRegister_v2(memory, page_bytes, flags) != CUDA_SUCCESS ||
      d.cuMemHostGetDevicePointer_v2(&device, memory, 0) != CUDA_SUCCESS) {
    ::munmap(memory, page_bytes);
    return nullptr;
  }
  auto fresh = std::make_shared<page>();
  fresh->host = static_cast<std::uint32_t*>(memory);
  fresh->device = device;
  for (std::uint32_t i = words_per_page; i-- > 0;) fresh->free.push_back(i);
  return fresh;
}

void word_pages::context_gone(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  pages_.erase(context);
}

}  // namespace gpuwire::daemon
