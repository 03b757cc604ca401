// SPDX-License-Identifier: Apache-2.0
#include "shim/graph_memory.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "shim/captures.hpp"
#include "shim/log.hpp"
#include "shim/memory.hpp"

namespace gpuwire::shim {
namespace {

constexpr std::uint64_t piece_bytes_max = 512u << 10;

struct known_memory {
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> destinations;  // begin to end, apart from one another
  std::map<std::uint64_t, std::vector<host_box>> outstanding;  // by delivery
  std::uint64_t last_delivery = 0;
};

known_memory& known() {
  static auto* the_memory = new known_memory;
  return *the_memory;
}

std::uint64_t extent(const host_box& box) {
  return (box.depth - 1) * box.slice + (box.rows - 1) * box.pitch + box.width;
}

bool is_empty(const host_box& box) {
  return box.width == 0 || box.rows == 0 || box.depth == 0;
}

bool overlap(const host_box& a, const host_box& b) {
  return a.address < b.address + extent(b) && b.address < a.address + extent(a);
}

void add_box(std::vector<host_box>& out, const CUDA_MEMCPY3D& p, bool source, std::uint64_t node) {
  const auto type = source ? p.srcMemoryType : p.dstMemoryType;
  if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_UNIFIED) return;
  std::uint64_t base = source ? p.srcDevice : p.dstDevice;
  if (type == CU_MEMORYTYPE_HOST)
    base = source ? reinterpret_cast<std::uint64_t>(p.srcHost)
                  : reinterpret_cast<std::uint64_t>(p.dstHost);
  if (type == CU_MEMORYTYPE_UNIFIED) {
    const auto range = state().memory.find(base);
    if (range && is_device_memory(*range)) return;
  }
  const auto pitch = source ? p.srcPitch : p.dstPitch, height = source ? p.srcHeight : p.dstHeight;
  host_box box{node, source, 0, p.WidthInBytes, pitch, p.Height, pitch * height, p.Depth};
  box.address = base + (source ? p.srcXInBytes : p.dstXInBytes) +
                (source ? p.srcY : p.dstY) * pitch + (source ? p.srcZ : p.dstZ) * box.slice;
  if (!is_empty(box)) out.push_back(box);
}

// Messages with the rows of boxes, none larger than a frame may be.
template <class Message, class Send>
CUresult send_rows(const std::vector<host_box>& boxes, const Send& send) {
  std::vector<std::uint64_t> addresses, lengths;
  std::vector<std::byte> data;
  const auto flush = [&]() -> CUresult {
    typename Message::request q;
    q.addresses = {addresses.data(), static_cast<std::uint32_t>(addresses.size())};
    q.lengths = {lengths.data(), static_cast<std::uint32_t>(lengths.size())};
    q.data = {data.data(), data.size()};
    const CUresult r = send(q);
    addresses.clear(), lengths.clear(), data.clear();
    return r;
  };
  for (const auto& box : boxes) {
    for (std::uint64_t z = 0; z < box.depth; ++z) {
      for (std::uint64_t y = 0; y < box.rows; ++y) {
        std::uint64_t at = box.address + z * box.slice + y * box.pitch, left = box.width;
        while (left != 0) {
          const auto part = std::min(left, piece_bytes_max - data.size());
          const auto* bytes = reinterpret_cast<const std::byte*>(at);
          addresses.push_back(at);
          lengths.push_back(part);
          data.insert(data.end(), bytes, bytes + part);
          at += part;
          left -= part;
          if (data.size() < piece_bytes_max && addresses.size() < 4096) continue;
          if (const CUresult r = flush(); r != CUDA_SUCCESS) return r;
        }
      }
    }
  }
  return addresses.empty() ? CUDA_SUCCESS : flush();
}

// What the GPU is still writing the server knows better. The mutex is held.
std::vector<host_box> settled(const known_memory& k, const std::vector<host_box>& boxes,
                              bool destinations) {
  std::vector<host_box> out;
  for (const auto& box : boxes) {
    if (!box.source && !destinations) continue;
    const bool written =
        std::any_of(k.outstanding.begin(), k.outstanding.end(), [&](const auto& o) {
          return std::any_of(o.second.begin(), o.second.end(), [&](const host_box& other) {
            return !other.source && overlap(box, other);
          });
        });
    if (!written) out.push_back(box);
  }
  return out;
}

}  // namespace

void note_destination(std::uint64_t address, std::uint64_t bytes) {
  auto& k = known();
  std::lock_guard lock(k.mutex);
  auto begin = address, end = address + bytes;
  auto at = k.destinations.upper_bound(begin);
  if (at != k.destinations.begin() && std::prev(at)->second >= begin) --at;
  while (at != k.destinations.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    at = k.destinations.erase(at);
  }
  k.destinations[begin] = end;
}

void note_destination(const CUDA_MEMCPY3D& copy) {
  std::vector<host_box> boxes;
  add_box(boxes, copy, false, 0);
  for (const auto& box : boxes) note_destination(box.address, extent(box));
}

std::optional<CUresult> captured_copy(bool to_device, CUdeviceptr device, const void* host,
                                      std::size_t bytes, const stream_target& target) {
  if (!any_capture()) return std::nullopt;
  msg::cuStreamIsCapturing::request asked;
  asked.hStream = target.id;
  asked.captureStatus_wanted = true;
  const auto a = call<msg::cuStreamIsCapturing>(asked);
  if (a.result != CUDA_SUCCESS || a.body.captureStatus != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return std::nullopt;
  const auto address = reinterpret_cast<std::uint64_t>(host);
  if (!to_device) note_destination(address, bytes);
  msg::graph_copy::request q;
  q.to_device = to_device;
  q.device = device;
  q.host = address;
  q.bytes = bytes;
  q.stream = target.id;
  return call_operation<msg::graph_copy>(*target.credit, 0, q).result;
}

void take_boxes(exec_record& exec, const wire::array_view<std::uint64_t>& words) {
  if (words.size < 8 && exec.memory.load() == nullptr) return;
  auto* memory = exec.memory.load();
  if (memory == nullptr) {
    // Kept for the record's next life as well.
    memory = new exec_memory;
    exec.memory.store(memory, std::memory_order_release);
  }
  std::lock_guard lock(memory->mutex);
  memory->boxes.clear();
  memory->primed = false;
  for (std::uint32_t i = 0; i + 8 <= words.size; i += 8) {
    host_box box{words[i],     words[i + 1] != 0, words[i + 2], words[i + 3],
                 words[i + 4], words[i + 5],      words[i + 6], words[i + 7]};
    if (!is_empty(box)) memory->boxes.push_back(box);
  }
}

void change_boxes(exec_record& exec, CUgraphNode node, const CUDA_MEMCPY3D& copy) {
  auto* memory = exec.memory.load();
  if (memory == nullptr) {
    memory = new exec_memory;
    exec.memory.store(memory, std::memory_order_release);
  }
  std::lock_guard lock(memory->mutex);
  std::erase_if(memory->boxes, [&](const host_box& box) { return box.node == id_of(node); });
  add_box(memory->boxes, copy, true, id_of(node));
  add_box(memory->boxes, copy, false, id_of(node));
  memory->primed = false;
}

CUresult prepare_launch(exec_record& exec, std::uint64_t& delivery) {
  delivery = 0;
  auto* memory = exec.memory.load(std::memory_order_acquire);
  if (memory == nullptr) return CUDA_SUCCESS;
  std::lock_guard lock(memory->mutex);
  if (memory->boxes.empty()) return CUDA_SUCCESS;
  auto& k = known();
  std::vector<host_box> wanted;
  {
    std::lock_guard known_lock(k.mutex);
    wanted = settled(k, memory->boxes, !memory->primed);
  }
  memory->primed = true;
  const CUresult r = send_rows<msg::graph_host_write>(
      wanted, [](const auto& q) { return post<msg::graph_host_write>(q); });
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard known_lock(k.mutex);
  delivery = ++k.last_delivery;
  k.outstanding[delivery] = memory->boxes;
  return CUDA_SUCCESS;
}

void send_sources_again() {
  auto& k = known();
  std::vector<host_box> sources;
  {
    std::lock_guard lock(k.mutex);
    for (const auto& [delivery, boxes] : k.outstanding)
      for (const auto& box : boxes)
        if (box.source) sources.push_back(box);
  }
  (void)send_rows<msg::graph_host_update>(sources, [](const auto& q) {
    return state().client->notify(msg::graph_host_update::call_id, 0, q) == wire::error::ok
               ? CUDA_SUCCESS
               : CUDA_ERROR_UNKNOWN;
  });
}

void take_graph_data(const msg::graph_host_data::request& m) {
  auto& k = known();
  std::lock_guard lock(k.mutex);
  std::uint64_t at = 0;
  for (std::uint32_t i = 0; i < m.addresses.size && i < m.lengths.size; ++i) {
    const auto address = m.addresses[i], bytes = m.lengths[i];
    auto range = k.destinations.upper_bound(address);
    const bool named = range != k.destinations.begin() && (--range)->second >= address &&
                       range->second - address >= bytes;
    if (!named || bytes > m.data.size - at) {
      log_debug("the server's data for memory that no graph writes is ignored");
      break;
    }
    std::memcpy(reinterpret_cast<void*>(address), m.data.data + at,
                static_cast<std::size_t>(bytes));
    at += bytes;
  }
  if (m.delivery != 0) k.outstanding.erase(m.delivery);
}

}  // namespace gpuwire::shim
