// SPDX-License-Identifier: Apache-2.0
#include "wire/incoming_bulk.hpp"

#include "wire/limits.hpp"

namespace gpuwire::wire {

void incoming_bulk::expect(std::uint64_t sequence, std::shared_ptr<bulk_sink> sink,
                           std::uint64_t bytes) {
  if (bytes == 0) return;
  {
    std::lock_guard lock(mutex_);
    if (state_.ok()) {
      auto t = std::make_shared<transfer_in>();
      t->sink = std::move(sink);
      t->total = bytes;
      expected_.emplace(sequence, std::move(t));
      changed_.notify_all();
      return;
    }
  }
  if (sink) sink->lost();
}

void incoming_bulk::receive(net::socket& connection) {
  std::vector<std::byte> waste;
  while (state_.ok()) {
    bulk_header header;
    const auto result = connection.receive_all(std::as_writable_bytes(std::span(&header, 1)));
    if (result.status != net::io::done)
      return fail_(error::connection_lost, net::error_text(result));
    if (header.bytes == 0 || header.bytes > limits::bulk_chunk_bytes || header.flags != 0)
      return fail_(error::protocol_violation, "the client sent a malformed bulk chunk");
    const auto t = begin_chunk(header);
    if (!t) {
      return fail_(error::protocol_violation,
                   "the client sent more bulk data than its command announced");
    }
    const bool complete = receive_chunk(connection, header, *t, waste);
    end_chunk(header.command_sequence, *t, header.bytes, complete);
    if (!complete) return;
  }
}

std::shared_ptr<incoming_bulk::transfer_in> incoming_bulk::begin_chunk(const bulk_header& header) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return expected_.contains(header.command_sequence) || !state_.ok(); });
  const auto found = expected_.find(header.command_sequence);
  if (found == expected_.end()) return {};
  auto t = found->second;
  const bool inside = header.offset <= t->total && header.bytes <= t->total - header.offset &&
                      header.bytes <= t->total - t->announced;
  if (!inside) return {};
  t->announced += header.bytes;
  ++t->in_progress;
  return t;
}

bool incoming_bulk::receive_chunk(net::socket& connection, const bulk_header& header,
                                  transfer_in& t, std::vector<std::byte>& waste) {
  std::span<std::byte> place;
  if (t.sink) {
    place = t.sink->place(header.offset, header.bytes);
    if (place.size() < header.bytes) {
      fail_(error::protocol_violation, "the client sent bulk data that has no place");
      return false;
    }
  } else {
    waste.resize(limits::bulk_chunk_bytes);
    place = waste;
  }
  const auto result = connection.receive_all(place.first(header.bytes));
  if (result.status != net::io::done) {
    fail_(error::connection_lost, net::error_text(result));
    return false;
  }
  if (t.sink) t.sink->arrived(header.offset, header.bytes);
  return true;
}

void incoming_bulk::end_chunk(std::uint64_t sequence, transfer_in& t, std::uint32_t bytes,
                              bool complete) {
  bool tell = false;
  {
    std::lock_guard lock(mutex_);
    --t.in_progress;
    if (complete) t.arrived += bytes;
    if (t.arrived == t.total) {
      t.over = true;
      expected_.erase(sequence);
    } else if (!state_.ok() && t.in_progress == 0) {
      tell = !std::exchange(t.over, true);
    }
  }
  if (tell && t.sink) t.sink->lost();
}

void incoming_bulk::release_all() {
  std::vector<std::shared_ptr<bulk_sink>> left;
  {
    std::lock_guard lock(mutex_);
    for (auto& [sequence, t] : expected_) {
      // A receive thread that is inside the sink tells it on its way out.
      if (t->in_progress == 0 && !std::exchange(t->over, true) && t->sink) left.push_back(t->sink);
    }
    changed_.notify_all();
  }
  for (auto& sink : left) sink->lost();
}

}  // namespace gpuwire::wire
