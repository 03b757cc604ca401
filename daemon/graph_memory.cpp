// SPDX-License-Identifier: Apache-2.0
#include "daemon/graph_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "daemon/call_context.hpp"
#include "daemon/daemon_thread.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/graph_walk.hpp"

namespace gpuwire::daemon {
namespace {

// Address space only: pages that nobody touches cost nothing.
constexpr unsigned window_bits = 36;
constexpr std::uint64_t window_bytes = std::uint64_t{1} << window_bits;
constexpr std::size_t windows_max = 64;
constexpr std::uint64_t push_bytes_max = 1u << 20;
constexpr std::chrono::microseconds pause_min{100}, pause_max{2'000};

// Calls use(address, bytes) for every row.
template <class Use>
void each_row(const host_box& box, const Use& use) {
  for (std::uint64_t z = 0; z < box.depth; ++z)
    for (std::uint64_t y = 0; y < box.rows; ++y)
      use(box.address + z * box.slice + y * box.pitch, box.width);
}

}  // namespace

std::vector<std::uint64_t> flat(const host_boxes& boxes) {
  std::vector<std::uint64_t> words;
  for (const auto& b : boxes)
    words.insert(words.end(), {b.node, b.source ? std::uint64_t{1} : 0, b.address, b.width, b.pitch,
                               b.rows, b.slice, b.depth});
  return words;
}

std::byte* graph_memory::shadow(std::uint64_t address, std::uint64_t bytes) {
  const auto key = address >> window_bits, inside = address & (window_bytes - 1);
  if (address == 0 || bytes > window_bytes - inside) return nullptr;
  std::lock_guard lock(mutex_);
  if (windows_.find(key) == windows_.end()) {
    if (windows_.size() == windows_max) return nullptr;
    void* memory = ::mmap(nullptr, window_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    windows_[key].memory = static_cast<std::byte*>(memory);
  }
  return windows_[key].memory + inside;
}

std::uint64_t graph_memory::client_address(std::uint64_t shadow) const {
  std::lock_guard lock(mutex_);
  for (const auto& [key, w] : windows_) {
    const auto begin = reinterpret_cast<std::uint64_t>(w.memory);
    if (shadow >= begin && shadow - begin < window_bytes)
      return (key << window_bits) + (shadow - begin);
  }
  return 0;
}

// mutex_ held.
const std::byte* graph_memory::find(std::uint64_t address, std::uint64_t bytes) const {
  const auto known = windows_.find(address >> window_bits);
  const auto inside = address & (window_bytes - 1);
  if (known == windows_.end() || bytes > window_bytes - inside) return nullptr;
  return known->second.memory + inside;
}

bool graph_memory::write(std::span<const std::uint64_t> addresses,
                         std::span<const std::uint64_t> lengths, std::span<const std::byte> data) {
  if (addresses.size() != lengths.size()) return false;
  std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (lengths[i] > data.size()) return false;
    const auto bytes = static_cast<std::size_t>(lengths[i]);
    auto* place = const_cast<std::byte*>(find(addresses[i], bytes));
    if (place == nullptr) return false;
    // A launch that is still running may be reading the same bytes.
    if (std::memcmp(place, data.data(), bytes) != 0) std::memcpy(place, data.data(), bytes);
    data = data.subspan(bytes);
  }
  return data.empty();
}

void graph_memory::add_boxes(const CUDA_MEMCPY3D& p, std::uint64_t node, host_boxes& out) const {
  const auto add = [&](bool source, CUmemorytype type, const void* host, CUdeviceptr device,
                       std::size_t x, std::size_t y, std::size_t z, std::size_t pitch,
                       std::size_t height) {
    if (type == CU_MEMORYTYPE_ARRAY) return;
    const auto base =
        client_address(type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(host) : device);
    if (base == 0) return;
    host_box box{node, source, 0, p.WidthInBytes, pitch, p.Height, pitch * height, p.Depth};
    box.address = base + x + y * pitch + z * box.slice;
    out.push_back(box);
  };
  add(true, p.srcMemoryType, p.srcHost, p.srcDevice, p.srcXInBytes, p.srcY, p.srcZ, p.srcPitch,
      p.srcHeight);
  add(false, p.dstMemoryType, p.dstHost, p.dstDevice, p.dstXInBytes, p.dstY, p.dstZ, p.dstPitch,
      p.dstHeight);
}

host_boxes graph_memory::boxes_of(CUgraph graph, wire::handle_id id) const {
  host_boxes boxes;
  const auto& d = worker_.driver();
  {
    std::lock_guard lock(mutex_);
    if (windows_.empty()) return boxes;
  }
  walk_graph(d, graph, [&](CUgraphNode node, CUgraphNodeType type) {
    CUDA_MEMCPY3D p{};
    if (type != CU_GRAPH_NODE_TYPE_MEMCPY || d.cuGraphMemcpyNodeGetParams == nullptr ||
        d.cuGraphMemcpyNodeGetParams(node, &p) != CUDA_SUCCESS)
      return;
    host_boxes own;
    add_boxes(p, 0, own);
    if (own.empty()) return;
    const auto handle = worker_.graphs.node(node, id);
    for (auto& box : own) {
      box.node = handle;
      boxes.push_back(box);
    }
  });
  return boxes;
}

void graph_memory::set_boxes(CUgraphExec exec, host_boxes boxes) {
  std::lock_guard lock(mutex_);
  if (boxes.empty())
    boxes_.erase(exec);
  else
    boxes_[exec] = std::move(boxes);
}

void graph_memory::replace_boxes(CUgraphExec exec, std::uint64_t node, const host_boxes& boxes) {
  std::lock_guard lock(mutex_);
  auto& all = boxes_[exec];
  std::erase_if(all, [&](const host_box& box) { return box.node == node; });
  all.insert(all.end(), boxes.begin(), boxes.end());
}

void graph_memory::launched(CUgraphExec exec, std::uint64_t delivery, const stream_reference& s,
                            bool failed) {
  if (delivery == 0) return;
  launch l{delivery, nullptr, s.context, {}};
  {
    std::lock_guard lock(mutex_);
    if (const auto known = boxes_.find(exec); known != boxes_.end()) {
      for (const auto& box : known->second)
        if (!box.source) l.written.push_back(box);
    }
  }
  enter_context(worker_, s.context);
  // In a capture nothing runs.
  bool nothing_runs = failed || worker_.captures.touches(s.native);
  if (!nothing_runs) {
    auto problem = CUDA_SUCCESS;
    l.event = worker_.events.acquire(s.context, problem);
    if (problem == CUDA_SUCCESS) problem = worker_.driver().cuEventRecord(l.event, s.native);
    nothing_runs = problem != CUDA_SUCCESS;
    if (nothing_runs) worker_.events.release(l.event, s.context);
  }
  if (nothing_runs) return push(delivery, {});
  std::lock_guard lock(mutex_);
  outstanding_.push_back(std::move(l));
  outstanding_count_.store(outstanding_.size(), std::memory_order_release);
  if (!started_) start_thread();
}

// A program may also look at its memory without asking whether the GPU is done.
void graph_memory::start_thread() {
  started_ = true;
  daemon::start_thread(worker_, "gpuwire-graphs", [this] {
    auto pause = pause_min;
    for (;;) {
      std::this_thread::sleep_for(pause);
      pause = any() ? pause_min : std::min(pause * 2, pause_max);
      if (any()) deliver_complete();
    }
  });
}

void graph_memory::deliver_complete() {
  std::vector<std::pair<std::uint64_t, CUevent>> looked_at;
  std::vector<std::uint32_t> contexts;
  {
    std::lock_guard lock(mutex_);
    for (const auto& l : outstanding_) {
      looked_at.emplace_back(l.delivery, l.event);
      contexts.push_back(l.context);
    }
  }
  if (looked_at.empty()) return;
  capture_mode_scope relaxed(worker_.driver(), CU_STREAM_CAPTURE_MODE_RELAXED);
  const auto before = current_context();
  for (std::size_t i = 0; i < looked_at.size(); ++i) {
    enter_context(worker_, contexts[i]);
    if (worker_.driver().cuEventQuery(looked_at[i].second) == CUDA_ERROR_NOT_READY) continue;
    // Held across the push, so that nobody reports the launch complete before its data is on the
    // way.
    std::lock_guard lock(mutex_);
    const auto at = std::find_if(outstanding_.begin(), outstanding_.end(),
                                 [&](const launch& l) { return l.delivery == looked_at[i].first; });
    if (at == outstanding_.end()) continue;
    push(at->delivery, at->written);
    worker_.events.release(at->event, at->context);
    outstanding_.erase(at);
    outstanding_count_.store(outstanding_.size(), std::memory_order_release);
  }
  enter_context(worker_, before);
}

void graph_memory::deliver_so_far() {
  std::lock_guard lock(mutex_);
  for (const auto& l : outstanding_)
    if (!l.written.empty()) push(0, l.written);
}

void graph_memory::context_gone(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  for (const auto& l : outstanding_)
    if (l.context == context) push(l.delivery, {});
  std::erase_if(outstanding_, [&](const launch& l) { return l.context == context; });
  outstanding_count_.store(outstanding_.size(), std::memory_order_release);
}

// delivery 0: there is more to come of it. mutex_ held when there are boxes.
void graph_memory::push(std::uint64_t delivery, const host_boxes& boxes) {
  std::vector<std::uint64_t> addresses, lengths;
  std::vector<std::byte> data;
  const auto send = [&](std::uint64_t number) {
    msg::graph_host_data::request m;
    m.delivery = number;
    m.addresses = {addresses.data(), static_cast<std::uint32_t>(addresses.size())};
    m.lengths = {lengths.data(), static_cast<std::uint32_t>(lengths.size())};
    m.data = {data.data(), data.size()};
    (void)worker_.session->push(m, msg::graph_host_data::call_id);
    addresses.clear(), lengths.clear(), data.clear();
  };
  for (const auto& box : boxes) {
    each_row(box, [&](std::uint64_t address, std::uint64_t width) {
      while (width != 0) {
        const auto part = std::min(width, push_bytes_max - data.size());
        const auto* place = find(address, part);
        if (place == nullptr) return;
        addresses.push_back(address);
        lengths.push_back(part);
        data.insert(data.end(), place, place + part);
        address += part;
        width -= part;
        if (data.size() == push_bytes_max || addresses.size() == 4096) send(0);
      }
    });
  }
  if (delivery != 0 || !addresses.empty()) send(delivery);
}

namespace custom {

outcome graph_host_write(call_context& c, const msg::graph_host_write::request& q) {
  const bool fits = c.owner().graph_data.write(q.addresses.span(), q.lengths.span(), q.data.span());
  return c.finish<msg::graph_host_write>(fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, {});
}

outcome graph_copy(call_context& c, const msg::graph_copy::request& q) {
  using call = msg::graph_copy;
  const auto& d = c.driver();
  auto& w = c.owner();
  const auto s = c.stream_of(q.stream);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  c.enter(s.context);
  // The client asked whether the stream captures; should that be over, the copy must not run here.
  if (!w.captures.captures(s.native)) return c.finish<call>(CUDA_ERROR_ILLEGAL_STATE, {});
  auto* host = w.graph_data.shadow(q.host, q.bytes);
  if (host == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const auto result = q.to_device ? d.cuMemcpyHtoDAsync_v2(q.device, host, q.bytes, s.native)
                                  : d.cuMemcpyDtoHAsync_v2(host, q.device, q.bytes, s.native);
  c.count_operation(q.stream, s);
  return c.finish<call>(result, {});
}

}  // namespace custom
}  // namespace gpuwire::daemon
