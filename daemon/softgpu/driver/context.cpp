// SPDX-License-Identifier: Apache-2.0
#include "context.hpp"

#include <cstdio>

#include "array.hpp"
#include "capture.hpp"
#include "guard.hpp"
#include "module.hpp"
#include "scheduler.hpp"
#include "tables.hpp"
#include "texture.hpp"

namespace gpuwire::softgpu {
namespace {

constexpr std::size_t stack_bytes = 1024;
constexpr std::size_t print_bytes = 1u << 20;
constexpr std::size_t heap_bytes = 8u << 20;

std::shared_ptr<stream> make_internal_stream(context& in, bool legacy) {
  auto made = std::make_shared<stream>();
  made->in = &in;
  made->id = next_unique_id();
  made->legacy = legacy;
  made->blocking = legacy;
  return made;
}

}  // namespace

context_table& contexts() {
  static auto* table = new context_table;
  return *table;
}

std::uint64_t next_unique_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

std::vector<std::shared_ptr<context>>& context_stack() {
  thread_local std::vector<std::shared_ptr<context>> stack;
  return stack;
}

std::shared_ptr<context> live_context() {
  auto& stack = context_stack();
  require(!inside_host_function, CUDA_ERROR_NOT_PERMITTED);
  require(!stack.empty() && stack.back(), CUDA_ERROR_INVALID_CONTEXT);
  require(stack.back()->active(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return stack.back();
}

std::shared_ptr<context> usable_context() {
  auto current = live_context();
  require(current->error() == CUDA_SUCCESS, current->error());
  return current;
}

std::shared_ptr<context> context_of(CUcontext handle, CUresult otherwise) {
  auto found = contexts().find(handle);
  require(found != nullptr, otherwise);
  return found;
}

std::shared_ptr<context> context_or_current(CUcontext handle) {
  if (handle == nullptr) return live_context();
  auto found = context_of(handle, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  require(found->active(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return found;
}

std::shared_ptr<context> context::make(device& on, bool primary) {
  static std::atomic<unsigned> last_id{0};
  const CUcontext handle = contexts().mint();
  auto made = std::make_shared<context>(on, last_id.fetch_add(1) + 1, primary, handle);
  contexts().insert(handle, made);
  return made;
}

context::context(device& on, unsigned id, bool primary, CUcontext handle)
    : on(on), id(id), primary(primary), handle(handle), memory(id, on.ordinal) {
  legacy = make_internal_stream(*this, true);
  housekeeping = make_internal_stream(*this, false);
}

void context::activate(unsigned wanted_flags, unsigned version) {
  unique_id = next_unique_id();
  flags = wanted_flags;
  api_version = version;
  limits = {{CU_LIMIT_STACK_SIZE, stack_bytes},
            {CU_LIMIT_PRINTF_FIFO_SIZE, print_bytes},
            {CU_LIMIT_MALLOC_HEAP_SIZE, heap_bytes}};
  cache_config = CU_FUNC_CACHE_PREFER_NONE;
  error_ = CUDA_SUCCESS;
  closed = false;
  active_.store(true, std::memory_order_release);
}

void context::deactivate() {
  if (!active_.exchange(false)) return;
  end_captures_of(*this);
  scheduler::instance().close(*this);
  flush_print();
  const auto mine = [this](const auto& object) { return object.owner.get() == this; };
  functions().remove_if(mine);
  modules().remove_if(mine);
  forget_instances_of(*this);
  streams_table().remove_if(mine);
  events().remove_if(mine);
  texture_objects::instance().remove_of_context(*this);
  arrays().remove_if(mine);
  mipmapped_arrays().remove_if(mine);
  {
    std::lock_guard lock(heap_mutex_);
    heap_.reset();
    heap_made_ = false;
  }
  memory.clear_peers();
  memory_table::instance().remove_of_context(id);
}

void context::print(std::string_view text) {
  std::lock_guard lock(print_mutex_);
  printed_.append(text);
  has_printed_.store(true, std::memory_order_release);
}

// Two locks: a full pipe behind stdout must not stop the thread that takes ended kernels.
void context::flush_print() {
  if (!has_printed_.load(std::memory_order_acquire)) return;
  static auto* write_mutex = new std::mutex;
  std::lock_guard write_lock(*write_mutex);
  std::string text;
  {
    std::lock_guard lock(print_mutex_);
    text.swap(printed_);
    has_printed_.store(false, std::memory_order_release);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::shared_ptr<kernel_heap> context::heap() {
  std::lock_guard lock(heap_mutex_);
  if (!heap_) {
    std::size_t bytes = 0;
    {
      std::lock_guard state_lock(state_mutex);
      bytes = limits[CU_LIMIT_MALLOC_HEAP_SIZE];
    }
    allocation_request request;
    request.bytes = bytes;
    request.kind = memory_kind::heap;
    request.context_id = id;
    auto made = memory_table::instance().allocate(on, request);
    require(made.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
    heap_ = std::make_shared<kernel_heap>(made->base, made->bytes);
    heap_made_ = true;
  }
  return heap_;
}

// First fit; the addresses are multiples of 16 as those of the host's malloc.
std::uint64_t kernel_heap::allocate(std::uint64_t bytes) {
  if (bytes == 0 || bytes > (1ull << 40)) return 0;
  bytes = (bytes + 15) / 16 * 16;
  std::lock_guard lock(mutex_);
  for (auto candidate = free_.begin(); candidate != free_.end(); ++candidate) {
    const auto [address, room] = *candidate;
    if (room < bytes) continue;
    free_.erase(candidate);
    if (room > bytes) free_.emplace(address + bytes, room - bytes);
    used_.emplace(address, bytes);
    return address;
  }
  return 0;
}

void kernel_heap::release(std::uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = used_.find(address);
  if (found == used_.end()) return;
  std::uint64_t bytes = found->second;
  used_.erase(found);
  auto next = free_.lower_bound(address);
  if (next != free_.end() && address + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(address, bytes);
}

}  // namespace gpuwire::softgpu
