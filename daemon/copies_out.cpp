// SPDX-License-Identifier: Apache-2.0
// Device to host. Up to the limit for replies: one driver copy into staging memory at its place in
// the stream, the bytes ride in the reply. More: the lane's thread keeps several chunks in flight,
// so that the driver copies one while the network takes another.
#include <algorithm>
#include <array>

#include "daemon/bulk_copies.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/pending_wait.hpp"
#include "wire/limits.hpp"

namespace gpuwire::daemon {
namespace {

using call = msg::copy_from_device;

struct chunk_in_flight {
  staging_block block;
  CUevent event = nullptr;
  std::uint64_t offset = 0, bytes = 0;
};

// On the lane's thread. Everything that was appended before the command has been issued, so the
// copies are at a legal place.
class outgoing_copy {
 public:
  outgoing_copy(worker& w, const call_ticket& ticket, stream_reference s, chunk_copy issue,
                std::uint64_t bytes)
      : worker_(w), ticket_(ticket), stream_(s), copy_(std::move(issue)), bytes_(bytes) {}

  void run() {
    enter_context(worker_, stream_.context);
    auto result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && (issued_ < bytes_ || begun_ > sent_)) {
      if (issued_ < bytes_ && begun_ - sent_ < chunks_.size())
        result = issue();
      else
        result = send_oldest();
    }
    // Blocks must not be given back while the GPU may still write to them.
    while (begun_ > sent_) drop_oldest();
    worker_.deliveries_to_client.settle();
    worker_.publish();
    worker_.answer<call>(ticket_, result, {});
  }

 private:
  CUresult issue() {
    auto& chunk = chunks_[begun_ % chunks_.size()];
    chunk.offset = issued_;
    chunk.bytes = std::min<std::uint64_t>(bytes_ - issued_, wire::limits::bulk_chunk_bytes);
    // Only the first block is waited for: a transfer that has one always makes progress.
    chunk.block = begun_ == sent_ ? worker_.bulk_staging.acquire(chunk.bytes, stream_.context)
                                  : worker_.bulk_staging.try_acquire(chunk.bytes, stream_.context);
    if (!chunk.block) return send_oldest();
    auto problem = CUDA_SUCCESS;
    chunk.event = worker_.events.acquire(stream_.context, problem);
    if (problem == CUDA_SUCCESS) problem = copy_(chunk.offset, chunk.block.data, chunk.bytes);
    if (problem == CUDA_SUCCESS)
      problem = worker_.driver().cuEventRecord(chunk.event, stream_.native);
    if (problem != CUDA_SUCCESS) {
      give_back(chunk);
      return problem;
    }
    issued_ += chunk.bytes;
    ++begun_;
    return CUDA_SUCCESS;
  }

  CUresult send_oldest() {
    auto& chunk = chunks_[sent_ % chunks_.size()];
    const auto result = worker_.driver().cuEventSynchronize(chunk.event);
    if (result == CUDA_SUCCESS) {
      // A lost connection is noticed by the session; there is nobody left to answer.
      (void)worker_.session->send_bulk(ticket_.sequence, chunk.offset,
                                       {chunk.block.data, chunk.bytes});
    }
    give_back(chunk);
    ++sent_;
    return result;
  }

  void drop_oldest() {
    auto& chunk = chunks_[sent_++ % chunks_.size()];
    worker_.driver().cuEventSynchronize(chunk.event);
    give_back(chunk);
  }

  void give_back(chunk_in_flight& chunk) {
    worker_.bulk_staging.release(chunk.block);
    worker_.events.release(chunk.event, stream_.context);
    chunk = {};
  }

  worker& worker_;
  const call_ticket ticket_;
  const stream_reference stream_;
  const chunk_copy copy_;
  const std::uint64_t bytes_;
  std::uint64_t issued_ = 0;
  std::size_t begun_ = 0, sent_ = 0;  // chunks
  std::array<chunk_in_flight, limits::transfer_blocks_max> chunks_;
};

}  // namespace

outcome send_in_chunks(call_context& c, const stream_reference& s, std::uint64_t bytes,
                       chunk_copy issue) {
  c.owner().lanes.run(c.ticket().lane, [&w = c.owner(), ticket = c.ticket(), s, bytes,
                                        issue = std::move(issue)] {
    outgoing_copy(w, ticket, s, issue, bytes).run();
  });
  return c.deferred();
}

outcome send_in_reply(call_context& c, const stream_reference& s, std::uint64_t bytes,
                      const chunk_copy& issue) {
  auto& w = c.owner();
  pending_wait wait;
  wait.context = s.context;
  wait.bytes = bytes;
  wait.block = w.inline_staging.try_acquire(bytes, s.context);
  if (!wait.block) return c.finish<call>(CUDA_ERROR_OUT_OF_MEMORY, {});
  auto problem = CUDA_SUCCESS;
  wait.event = w.events.acquire(s.context, problem);
  if (problem == CUDA_SUCCESS) problem = issue(0, wait.block.data, bytes);
  if (problem == CUDA_SUCCESS) problem = c.driver().cuEventRecord(wait.event, s.native);
  if (problem != CUDA_SUCCESS) {
    w.inline_staging.release(wait.block);
    w.events.release(wait.event, s.context);
    w.publish();
    return c.finish<call>(problem, {});
  }
  return c.wait(wait);
}

namespace custom {

outcome copy_from_device(call_context& c, const call::request& q) {
  if (!c.called()) return c.malformed();
  const auto s = c.stream_of(q.stream);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (!c.enter(s.context) || s.context == 0) return c.finish<call>(CUDA_ERROR_INVALID_CONTEXT, {});
  if (q.bytes == 0) return c.finish<call>(CUDA_SUCCESS, {});
  auto& captures = c.owner().captures;
  if (captures.touches(s.native)) {
    const auto refused = q.synchronous || !captures.captures(s.native);
    return c.finish<call>(refused ? captures.refusal(s.native) : CUDA_ERROR_NOT_SUPPORTED, {});
  }
  const auto copy = [&d = c.driver(), s, source = q.source](std::uint64_t offset, std::byte* data,
                                                            std::uint64_t bytes) {
    return d.cuMemcpyDtoHAsync_v2(data, source + offset, bytes, s.native);
  };
  return q.bytes <= wire::limits::reply_inline_bytes_max ? send_in_reply(c, s, q.bytes, copy)
                                                         : send_in_chunks(c, s, q.bytes, copy);
}

}  // namespace custom
}  // namespace gpuwire::daemon
