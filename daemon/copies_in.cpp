// SPDX-License-Identifier: Apache-2.0
// Host to device. Inline data is copied into pinned blocks, which return when the copy is over, so
// that the executor never waits for the GPU. Bulk data arrives in pinned blocks on the receive
// threads; the lane's thread issues a copy for each chunk as it comes and answers when the last one
// has been issued.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "daemon/bulk_copies.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/inline_copies.hpp"
#include "wire/limits.hpp"

namespace gpuwire::daemon {
namespace {

using call = msg::copy_to_device;

struct chunk {
  staging_block block;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  CUevent event = nullptr;
};

// Shared by the receive threads, which fill blocks, and the lane's thread, which empties them.
class incoming_copy final : public wire::bulk_sink {
 public:
  incoming_copy(worker& w, const call_ticket& ticket, stream_reference s, chunk_copy issue,
                std::uint64_t bytes)
      : worker_(w), ticket_(ticket), stream_(s), copy_(std::move(issue)), bytes_(bytes) {}

  std::span<std::byte> place(std::uint64_t offset, std::uint32_t bytes) override {
    if (bytes > wire::limits::bulk_chunk_bytes || offset > bytes_ || bytes > bytes_ - offset)
      return {};
    std::unique_lock lock(mutex_);
    ++wanting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !free_.empty() || lost_; });
    --wanting_;
    if (lost_) return {};
    auto block = free_.back();
    free_.pop_back();
    filling_[offset] = block;
    return {block.data, bytes};
  }

  void arrived(std::uint64_t offset, std::uint32_t bytes) override {
    std::lock_guard lock(mutex_);
    const auto found = filling_.find(offset);
    if (found == filling_.end()) return;
    arrived_.push_back({found->second, offset, bytes, nullptr});
    filling_.erase(found);
    changed_.notify_all();
  }

  void lost() override {
    std::lock_guard lock(mutex_);
    lost_ = true;
    changed_.notify_all();
  }

  // On the lane's thread.
  void run() {
    enter_context(worker_, stream_.context);
    std::uint64_t taken = 0;
    while (taken < bytes_) {
      chunk next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return lost_ || !arrived_.empty() || wanting_ != 0; });
        if (lost_) return;  // the session ends
        if (arrived_.empty()) {
          lock.unlock();
          provide_block();
          continue;
        }
        next = arrived_.front();
        arrived_.pop_front();
      }
      taken += next.bytes;
      issue(next);
    }
    worker_.answer<call>(ticket_, result_, {});
    while (!issued_.empty()) recycle_oldest();
    std::lock_guard lock(mutex_);
    for (const auto& block : free_) worker_.bulk_staging.release(block);
    free_.clear();
  }

 private:
  void issue(chunk& next) {
    auto problem = result_;
    if (problem == CUDA_SUCCESS) next.event = worker_.events.acquire(stream_.context, problem);
    if (problem == CUDA_SUCCESS) problem = copy_(next.offset, next.block.data, next.bytes);
    if (problem == CUDA_SUCCESS)
      problem = worker_.driver().cuEventRecord(next.event, stream_.native);
    if (problem != CUDA_SUCCESS) {
      // The rest is still received, or the connection would be out of step; the first error is the
      // answer.
      result_ = problem;
      worker_.events.release(next.event, stream_.context);
      add_free(next.block);
      return;
    }
    issued_.push_back(next);
    while (!issued_.empty() &&
           worker_.driver().cuEventQuery(issued_.front().event) != CUDA_ERROR_NOT_READY)
      recycle_oldest();
  }

  // A receive thread has nowhere to put the next chunk.
  void provide_block() {
    if (blocks_ < limits::transfer_blocks_max) {
      const auto block =
          blocks_ == 0
              ? worker_.bulk_staging.acquire(wire::limits::bulk_chunk_bytes, stream_.context)
              : worker_.bulk_staging.try_acquire(wire::limits::bulk_chunk_bytes, stream_.context);
      if (block) {
        ++blocks_;
        return add_free(block);
      }
    }
    if (!issued_.empty()) return recycle_oldest();
    // All blocks are being filled by other receive threads; one of them will arrive.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return lost_ || !arrived_.empty() || !free_.empty(); });
  }

  void recycle_oldest() {
    const auto oldest = issued_.front();
    issued_.pop_front();
    worker_.driver().cuEventSynchronize(oldest.event);
    worker_.events.release(oldest.event, stream_.context);
    add_free(oldest.block);
  }

  void add_free(staging_block block) {
    std::lock_guard lock(mutex_);
    free_.push_back(block);
    changed_.notify_all();
  }

  worker& worker_;
  const call_ticket ticket_;
  const stream_reference stream_;
  const chunk_copy copy_;
  const std::uint64_t bytes_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<staging_block> free_;
  std::unordered_map<std::uint64_t, staging_block> filling_;  // by offset
  std::deque<chunk> arrived_;
  int wanting_ = 0;  // receive threads without a block
  bool lost_ = false;

  // The lane thread's alone.
  std::deque<chunk> issued_;
  std::size_t blocks_ = 0;
  CUresult result_ = CUDA_SUCCESS;
};

// A capture would need the source at every replay.
CUresult captured(call_context& c, const call::request& q, const stream_reference& s) {
  auto& captures = c.owner().captures;
  return q.synchronous || !captures.captures(s.native) ? captures.refusal(s.native)
                                                       : CUDA_ERROR_NOT_SUPPORTED;
}

outcome bulk_copy(call_context& c, const call::request& q) {
  const auto& d = c.driver();
  const auto s = c.stream_of(q.stream);
  const auto refusal =
      c.owner().captures.touches(s.native) ? captured(c, q, s) : CUDA_SUCCESS;
  return receive_in_chunks(
      c, q.stream, q.bytes,
      [&d, s, destination = q.destination](std::uint64_t offset, std::byte* data,
                                           std::uint64_t bytes) {
        return d.cuMemcpyHtoDAsync_v2(destination + offset, data, bytes, s.native);
      },
      refusal);
}

}  // namespace

outcome receive_in_chunks(call_context& c, std::uint64_t stream, std::uint64_t bytes,
                          chunk_copy issue, CUresult refusal) {
  auto& w = c.owner();
  c.bulk_taken();
  if (!c.called()) return c.malformed();
  const auto s = c.stream_of(stream);
  auto problem = c.failed() ? c.failure() : refusal;
  if (problem == CUDA_SUCCESS && (!c.enter(s.context) || s.context == 0))
    problem = CUDA_ERROR_INVALID_CONTEXT;
  if (problem != CUDA_SUCCESS || bytes == 0) {
    w.session->expect_bulk(c.ticket().sequence, nullptr, bytes);
    c.count_operation(stream, s);
    return c.finish<call>(problem, {});
  }
  auto copy = std::make_shared<incoming_copy>(w, c.ticket(), s, std::move(issue), bytes);
  w.session->expect_bulk(c.ticket().sequence, copy, bytes);
  c.count_operation(stream, s);
  w.lanes.run(c.ticket().lane, [copy] { copy->run(); });
  return c.deferred();
}

CUresult inline_copies::copy(CUdeviceptr destination, const std::byte* data, std::size_t bytes,
                             const stream_reference& s) {
  const auto& d = worker_.driver();
  // Up to here the driver itself takes a copy of pageable memory before it returns, without waiting
  // for the stream.
  if (bytes <= limits::direct_copy_bytes_max) {
    capture_mode_scope relaxed(d, CU_STREAM_CAPTURE_MODE_RELAXED);
    recycle();
    return d.cuMemcpyHtoDAsync_v2(destination, data, bytes, s.native);
  }
  return copy_staged(data, bytes, s, [&](const std::byte* staged) {
    return d.cuMemcpyHtoDAsync_v2(destination, staged, bytes, s.native);
  });
}

CUresult inline_copies::copy_staged(const std::byte* data, std::size_t bytes,
                                    const stream_reference& s, const issue_function& issue) {
  const auto& d = worker_.driver();
  capture_mode_scope relaxed(d, CU_STREAM_CAPTURE_MODE_RELAXED);
  recycle();
  auto block = worker_.inline_staging.try_acquire(bytes, s.context);
  // Beyond the bound only a client gets that ignores its credits; the driver then may make the
  // executor wait.
  if (!block) return issue(data);
  std::memcpy(block.data, data, bytes);
  auto problem = CUDA_SUCCESS;
  const auto event = worker_.events.acquire(s.context, problem);
  if (problem == CUDA_SUCCESS) problem = issue(block.data);
  if (problem == CUDA_SUCCESS) {
    problem = d.cuEventRecord(event, s.native);
    if (problem == CUDA_SUCCESS) {
      std::lock_guard lock(mutex_);
      busy_.push_back({block, event, s.context});
      return CUDA_SUCCESS;
    }
  }
  worker_.events.release(event, s.context);
  worker_.inline_staging.release(block);
  return problem;
}

// Streams finish in any order, so a slow one at the head must not keep the blocks of the others.
void inline_copies::recycle() {
  std::lock_guard lock(mutex_);
  std::size_t looked_at = 0;
  for (auto at = busy_.begin(); at != busy_.end() && looked_at < 4; ++looked_at) {
    enter_context(worker_, at->context);
    if (worker_.driver().cuEventQuery(at->event) == CUDA_ERROR_NOT_READY) {
      ++at;
      continue;
    }
    worker_.events.release(at->event, at->context);
    worker_.inline_staging.release(at->block);
    at = busy_.erase(at);
  }
}

void inline_copies::settle(std::uint32_t context) {
  std::list<busy_block> own;
  {
    std::lock_guard lock(mutex_);
    for (auto at = busy_.begin(); at != busy_.end();) {
      const auto next = std::next(at);
      if (at->context == context) own.splice(own.end(), busy_, at);
      at = next;
    }
  }
  enter_context(worker_, context);
  for (const auto& busy : own) {
    worker_.driver().cuEventSynchronize(busy.event);
    worker_.events.release(busy.event, busy.context);
    worker_.inline_staging.release(busy.block);
  }
}

namespace custom {

outcome copy_to_device(call_context& c, const call::request& q) {
  if (c.bulk()) return bulk_copy(c, q);
  if (q.data.size != q.bytes || q.bytes > wire::limits::inline_payload_bytes_max)
    return c.malformed();
  const auto s = c.stream_of(q.stream);
  auto result = c.failure();
  if (result == CUDA_SUCCESS) {
    c.enter(c.ticket().context);
    result = c.owner().captures.touches(s.native)
                 ? captured(c, q, s)
                 : c.owner().incoming.copy(q.destination, q.data.data, q.bytes, s);
  }
  c.count_operation(q.stream, s, q.bytes);
  return c.finish<call>(result, {});
}

}  // namespace custom
}  // namespace gpuwire::daemon
