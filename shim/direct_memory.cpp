// SPDX-License-Identifier: Apache-2.0
#include "shim/direct_memory.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "shim/entry.hpp"
#include "shim/log.hpp"
#include "shim/memory.hpp"
#include "shim/options.hpp"
#include "shim/pinned.hpp"
#include "wire/byte_delta.hpp"
#include "wire/exchange_pace.hpp"
#include "wire/thread.hpp"

namespace gpuwire::shim {
namespace {

constexpr std::size_t delta_bytes_max = 1u << 20;  // of one command

struct direct_range {
  std::uint64_t bytes = 0;
  wire::shadow_memory shadow;  // what the server has
};

struct direct_state {
  // Held by who sends, so that deltas are appended in the order in which they were made.
  std::mutex sending;
  // For what follows. Never held across anything that may wait: the side thread takes it.
  std::mutex mutex;
  std::map<std::uint64_t, direct_range> ranges;
  std::atomic<unsigned> direct_ranges{0};

  // Small ranges are exchanged by a thread while work may be under way, for kernels and programs
  // that poll them.
  wire::exchange_pace pace;
  wire::thread_group threads;
  std::atomic<unsigned> small_ranges{0};

  // Ranges that are not flagged lie between these two; they only ever grow apart.
  std::atomic<std::uint64_t> low{UINT64_MAX}, high{0};
  std::atomic<unsigned> unflagged{0};
  std::mutex flagging;  // one range at a time
};

direct_state& direct() {
  static auto* s = new direct_state;
  return *s;
}

void widen(std::uint64_t begin, std::uint64_t end) {
  auto& d = direct();
  auto low = d.low.load(std::memory_order_relaxed);
  while (begin < low && !d.low.compare_exchange_weak(low, begin, std::memory_order_relaxed)) {
  }
  auto high = d.high.load(std::memory_order_relaxed);
  while (end > high && !d.high.compare_exchange_weak(high, end, std::memory_order_relaxed)) {
  }
}

bool is_unflagged_host(const memory_range& range) {
  return range.value.kind != memory_kind::device && range.value.kind != memory_kind::global &&
         range.value.kind != memory_kind::managed && range.value.direct == direct_access::none;
}

void set_access(std::uint64_t base, direct_access to) {
  state().memory.change(base, [to](memory_entry& e) { e.direct = to; });
}

}  // namespace

namespace detail {

std::atomic<unsigned> host_ranges{0};

namespace {

// One that cannot be flagged is left alone: the kernel then faults, if it uses the address at all.
bool flag_if_host_memory(std::uint64_t address) {
  const auto range = state().memory.find(address);
  return range && is_unflagged_host(*range) && make_direct(address) == CUDA_SUCCESS;
}

}  // namespace

// Addresses in packed structs lie at any multiple of four.
void look_for_host_addresses(const std::byte* data, std::size_t bytes) {
  auto& d = direct();
  if (d.unflagged.load(std::memory_order_relaxed) == 0) return;
  const auto low = d.low.load(std::memory_order_relaxed);
  const auto length = d.high.load(std::memory_order_relaxed) - low;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes; at += 4) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, sizeof word);
    if (word - low < length) flag_if_host_memory(word);
  }
}

namespace {

// What the program writes to memory that kernels reach may itself be addresses of host memory.
void note_addresses(const std::vector<std::byte>& delta, std::uint64_t address, std::uint64_t bytes,
                    std::vector<std::uint64_t>& found) {
  auto& d = direct();
  if (d.unflagged.load(std::memory_order_relaxed) == 0) return;
  const auto low = d.low.load(std::memory_order_relaxed);
  const auto length = d.high.load(std::memory_order_relaxed) - low;
  const auto before = found.size();
  wire::read_changed_words(delta, reinterpret_cast<const std::byte*>(address),
                           static_cast<std::size_t>(bytes), found);
  found.erase(std::remove_if(found.begin() + static_cast<std::ptrdiff_t>(before), found.end(),
                             [&](std::uint64_t word) { return word - low >= length; }),
              found.end());
}

struct delta_cursor {
  std::uint64_t address = 0;
  std::size_t at = 0;
  std::vector<std::byte> delta;
  std::vector<std::uint64_t> addresses;  // of host memory, in what was sent
};

// One command's worth of what the program changed in the range, from the place where the last one
// ended.
bool next_delta(delta_cursor& c) {
  auto& d = direct();
  c.delta.clear();
  std::lock_guard lock(d.mutex);
  const auto found = d.ranges.find(c.address);
  if (found == d.ranges.end()) return false;
  auto& range = found->second;
  if (c.at >= range.bytes) return false;
  c.at = wire::encode_delta(reinterpret_cast<const std::byte*>(c.address), range.shadow.data(),
                            c.at, static_cast<std::size_t>(range.bytes), delta_bytes_max, c.delta);
  if (!c.delta.empty()) note_addresses(c.delta, c.address, range.bytes, c.addresses);
  return true;
}

CUresult send_writes_of(std::uint64_t address, delta_cursor& c) {
  thread_state& t = self();
  need_lane(t);
  c.address = address;
  for (c.at = 0; next_delta(c);) {
    if (c.delta.empty()) continue;
    msg::direct_write::request q;
    q.address = address;
    q.delta = {c.delta.data(), static_cast<std::uint32_t>(c.delta.size())};
    if (const CUresult r = append<msg::direct_write>(t, q); r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace

namespace {

// Again after addresses of host memory were found, which is kept the same from then on.
CUresult send_writes(std::uint64_t bytes_max) {
  auto& d = direct();
  std::lock_guard sending(d.sending);
  static auto& cursor = *new delta_cursor;  // guarded by d.sending
  for (bool again = true; again;) {
    std::vector<std::uint64_t> ranges;
    {
      std::lock_guard lock(d.mutex);
      for (const auto& [address, range] : d.ranges)
        if (range.bytes <= bytes_max) ranges.push_back(address);
    }
    for (const auto address : ranges)
      if (const CUresult r = send_writes_of(address, cursor); r != CUDA_SUCCESS) return r;
    again = false;
    for (const auto address : cursor.addresses) again = flag_if_host_memory(address) || again;
    cursor.addresses.clear();
  }
  return CUDA_SUCCESS;
}

void poll() {
  auto& client = *state().client;
  for (;;) {
    const auto before = client.appended();
    if (guard::now() != phase::initialised || send_writes(wire::polled_bytes_max) != CUDA_SUCCESS)
      return;
    if (client.appended() != before && client.flush() != wire::error::ok) return;
    std::this_thread::sleep_for(direct().pace.pause());
  }
}

void watch_small_ranges() {
  auto& d = direct();
  if (d.small_ranges.load(std::memory_order_relaxed) == 0 || !d.pace.work_began()) return;
  if (!d.threads.start("gpuwire-direct", poll)) log_debug("no thread for memory that kernels poll");
}

}  // namespace

CUresult send_host_writes() {
  auto& d = direct();
  if (d.direct_ranges.load(std::memory_order_acquire) == 0) return CUDA_SUCCESS;
  const CUresult r = send_writes(UINT64_MAX);
  watch_small_ranges();
  return r;
}

}  // namespace detail

bool flag_everything() {
  static const bool wanted = environment_variable("GPUWIRE_PINNED") == "mapped";
  return wanted;
}

void host_range_came(std::uint64_t address, std::uint64_t bytes) {
  widen(address, address + bytes);
  direct().unflagged.fetch_add(1, std::memory_order_relaxed);
  detail::host_ranges.fetch_add(1, std::memory_order_relaxed);
}

void host_range_went() {
  direct().unflagged.fetch_sub(1, std::memory_order_relaxed);
  detail::host_ranges.fetch_sub(1, std::memory_order_relaxed);
}

CUresult begin_direct(std::uint64_t address, std::uint64_t bytes) {
  auto& d = direct();
  direct_range range;
  range.bytes = bytes;
  range.shadow = wire::shadow_memory(address, bytes);
  if (!range.shadow) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(d.mutex);
  if (bytes <= wire::polled_bytes_max) d.small_ranges.fetch_add(1, std::memory_order_relaxed);
  d.ranges.insert_or_assign(address, std::move(range));
  d.direct_ranges.fetch_add(1, std::memory_order_release);
  detail::host_ranges.fetch_add(1, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

void end_direct(std::uint64_t address) {
  auto& d = direct();
  // Nobody may be about to look at memory that is given back next.
  std::lock_guard lock(d.mutex);
  const auto found = d.ranges.find(address);
  if (found == d.ranges.end()) return;
  if (found->second.bytes <= wire::polled_bytes_max)
    d.small_ranges.fetch_sub(1, std::memory_order_relaxed);
  d.ranges.erase(found);
  d.direct_ranges.fetch_sub(1, std::memory_order_relaxed);
  detail::host_ranges.fetch_sub(1, std::memory_order_relaxed);
}

CUresult make_direct(std::uint64_t address) {
  auto& d = direct();
  std::lock_guard flagging(d.flagging);
  const auto range = state().memory.find(address);
  if (!range) return CUDA_ERROR_INVALID_VALUE;
  if (range->value.direct == direct_access::refused) return CUDA_ERROR_NOT_SUPPORTED;
  if (!is_unflagged_host(*range)) return CUDA_SUCCESS;
  // Copies into it that are on their way come from elsewhere.
  if (is_still_written(reinterpret_cast<const void*>(range->base),
                       static_cast<std::size_t>(range->bytes))) {
    msg::sync::request wait;
    wait.scope = 1;
    transact<msg::sync>(wait, {}, errors_first::no);
  }
  msg::direct_map::request q;
  q.address = range->base;
  q.bytes = range->bytes;
  q.flags = range->value.kind == memory_kind::registered ? range->value.flags : 0;
  CUresult r = transact<msg::direct_map>(q, {}, errors_first::no).result;
  if (r == CUDA_SUCCESS) r = begin_direct(range->base, range->bytes);
  if (r != CUDA_SUCCESS) {
    set_access(range->base, direct_access::refused);
    log_debug("the server has no memory at {:#x} ({} bytes) for host memory of this process: {}",
              range->base, range->bytes, static_cast<int>(r));
    return r;
  }
  set_access(range->base, direct_access::granted);
  host_range_went();
  return CUDA_SUCCESS;
}

void settle_host_writes() {
  if (direct().direct_ranges.load(std::memory_order_acquire) == 0) return;
  // Commands are carried out in order, so the answer to one comes after the writes before it. A
  // lost connection has told everybody already.
  if (detail::send_host_writes() == CUDA_SUCCESS)
    transact<msg::direct_refresh>({}, {}, errors_first::no);
}

void take_device_writes(std::uint64_t address, std::span<const std::byte> delta) {
  auto& d = direct();
  std::lock_guard lock(d.mutex);
  const auto found = d.ranges.find(address);
  if (found == d.ranges.end()) return;  // freed meanwhile
  if (!wire::apply_delta(delta, reinterpret_cast<std::byte*>(address), found->second.shadow.data(),
                         found->second.bytes))
    log_debug("changes of the server for {:#x} cannot be understood", address);
}

void explain_illegal_address(CUresult result) {
  if (result != CUDA_ERROR_ILLEGAL_ADDRESS ||
      direct().unflagged.load(std::memory_order_relaxed) == 0)
    return;
  static once said;
  if (said.first())
    write_line(
        "a kernel used an address that is not device memory. If it is pinned or registered memory "
        "whose address reached the kernel in an unusual way, set GPUWIRE_PINNED=mapped");
}

}  // namespace gpuwire::shim
