// SPDX-License-Identifier: Apache-2.0
#include "wire/bulk_sender.hpp"

#include <algorithm>

#include "wire/header.hpp"
#include "wire/limits.hpp"

namespace gpuwire::wire {

// Below this a second thread costs more than it brings.
static constexpr std::size_t shared_chunks_min = 4;

void bulk_sender::attach(net::socket& connection) {
  std::lock_guard lock(mutex_);
  lanes_.push_back(std::make_unique<lane>(connection));
  changed_.notify_all();
}

void bulk_sender::release_all() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void bulk_sender::start_helpers() {
  for (std::size_t i = 1; i < lanes_.size(); ++i) {
    auto& l = *lanes_[i];
    if (!l.has_helper) l.has_helper = threads_.start("gpuwire-bulk-tx", [this, &l] { help(l); });
  }
}

net::io_result bulk_sender::send(std::uint64_t sequence, std::uint64_t offset,
                                 std::span<const std::byte> data, std::uint32_t& chunks) {
  constexpr std::size_t chunk = limits::bulk_chunk_bytes;
  job j;
  j.sequence = sequence;
  j.offset = offset;
  j.data = data;
  j.chunk_count = (data.size() + chunk - 1) / chunk;
  chunks = static_cast<std::uint32_t>(j.chunk_count);
  lane* own = nullptr;
  std::list<job*>::iterator place;
  bool is_shared = false;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !lanes_.empty() || !state_.ok(); });
    if (!state_.ok()) return {net::io::closed, 0, 0};
    is_shared = lanes_.size() > 1 && j.chunk_count >= shared_chunks_min;
    own = lanes_[is_shared ? 0 : next_lane_++ % lanes_.size()].get();
    if (is_shared) {
      start_helpers();
      place = jobs_.insert(jobs_.end(), &j);
      changed_.notify_all();
    }
  }
  send_chunks(j, *own);
  std::unique_lock lock(mutex_);
  if (is_shared) {
    jobs_.erase(place);
    changed_.wait(lock, [&j] { return j.helpers == 0; });
  }
  return j.failure;
}

void bulk_sender::send_chunks(job& j, lane& l) {
  for (;;) {
    const auto i = j.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= j.chunk_count || !state_.ok()) break;
    const auto begin = i * limits::bulk_chunk_bytes;
    const auto part = j.data.subspan(
        begin, std::min<std::size_t>(limits::bulk_chunk_bytes, j.data.size() - begin));
    bulk_header header{j.sequence, j.offset + begin, static_cast<std::uint32_t>(part.size()), 0};
    iovec parts[2] = {{&header, sizeof header}, {const_cast<std::byte*>(part.data()), part.size()}};
    net::io_result result;
    {
      std::lock_guard lock(l.mutex);
      result = l.connection.send_all(parts, 2);
    }
    if (result.status != net::io::done) {
      std::lock_guard lock(mutex_);
      j.failure = result;
      j.next.store(j.chunk_count, std::memory_order_relaxed);
      return;
    }
  }
}

void bulk_sender::help(lane& l) {
  std::unique_lock lock(mutex_);
  while (state_.ok()) {
    const auto found = std::find_if(jobs_.begin(), jobs_.end(), [](const job* j) {
      return j->next.load(std::memory_order_relaxed) < j->chunk_count;
    });
    if (found == jobs_.end()) {
      changed_.wait(lock);
      continue;
    }
    job& j = **found;
    ++j.helpers;
    lock.unlock();
    send_chunks(j, l);
    lock.lock();
    --j.helpers;
    changed_.notify_all();
  }
}

}  // namespace gpuwire::wire
