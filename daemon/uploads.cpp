// SPDX-License-Identifier: Apache-2.0
#include "daemon/uploads.hpp"

#include <algorithm>
#include <vector>

#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/limits.hpp"
#include "daemon/word_pages.hpp"
#include "daemon/worker.hpp"
#include "wire/generated/messages_host.hpp"
#include "wire/limits.hpp"

namespace gpuwire::daemon {
namespace {

// Where the bytes go. Chunks come in any order and on several threads; the word counts the segments
// that are in without a gap.
class mirror_sink final : public wire::bulk_sink {
 public:
  mirror_sink(const upload& u, std::shared_ptr<counter_word> word, std::uint32_t before)
      : source_(u.source),
        offset_(u.offset),
        bytes_(u.bytes),
        word_(std::move(word)),
        open_(before) {
    const auto segment = wire::limits::upload_segment_bytes(bytes_);
    for (std::uint64_t begin = 0; begin < bytes_; begin += segment)
      missing_.push_back(std::min(segment, bytes_ - begin));
  }

  std::span<std::byte> place(std::uint64_t offset, std::uint32_t bytes) override {
    if (offset > bytes_ || bytes > bytes_ - offset) return {};
    return {source_->memory() + offset_ + offset, bytes};
  }

  void arrived(std::uint64_t offset, std::uint32_t bytes) override {
    const auto segment = wire::limits::upload_segment_bytes(bytes_);
    std::lock_guard lock(mutex_);
    for (std::uint64_t left = bytes; left != 0;) {
      const auto here = std::min(left, segment - offset % segment);
      auto& missing = missing_[static_cast<std::size_t>(offset / segment)];
      missing -= std::min(missing, here);
      offset += here;
      left -= here;
    }
    while (next_ < missing_.size() && missing_[next_] == 0) {
      ++next_;
      ++open_;
    }
    __atomic_store_n(word_->host, open_, __ATOMIC_RELEASE);
  }

  void lost() override {}  // the worker ends

 private:
  const std::shared_ptr<mirror> source_;
  const std::uint64_t offset_, bytes_;
  const std::shared_ptr<counter_word> word_;
  std::mutex mutex_;
  std::vector<std::uint64_t> missing_;  // bytes, by segment
  std::size_t next_ = 0;
  std::uint32_t open_;
};

}  // namespace

struct uploads::told_when_reached {
  worker& owner;
  std::uint64_t sequence = 0;
  std::uint32_t lane = 0;
};

bool uploads::works(std::uint32_t context) {
  const auto& d = worker_.driver();
  return d.cuStreamWaitValue32_v2 != nullptr && d.cuStreamAddCallback != nullptr &&
         worker_.words.take(context) != nullptr;
}

void uploads::tell_client(worker& w, std::uint64_t sequence, std::uint32_t lane) {
  msg::upload_wanted::request m;
  m.sequence = sequence;
  (void)w.session->push(m, msg::upload_wanted::call_id, lane);
}

// A callback rather than a host function, because it is called after an error too: the client waits
// for it.
void CUDA_CB uploads::tell(CUstream, CUresult, void* data) {
  const std::unique_ptr<told_when_reached> t(static_cast<told_when_reached*>(data));
  auto& w = t->owner;
  if (!w.deliveries_to_client.any()) return tell_client(w, t->sequence, t->lane);
  // What the client is going to read may be among what is on its way to it.
  w.deliveries_to_client.when_settled(
      [&w, sequence = t->sequence, lane = t->lane] { tell_client(w, sequence, lane); });
}

CUresult uploads::issue(const upload& u, const stream_reference& s) {
  const auto& d = worker_.driver();
  auto word = worker_.words.take(s.context);
  const auto segment = wire::limits::upload_segment_bytes(u.bytes);
  const auto segments = static_cast<std::uint32_t>((u.bytes + segment - 1) / segment);
  const std::uint32_t before = word ? word->value : 0;
  std::shared_ptr<wire::bulk_sink> sink;
  if (word) {
    word->value = before + segments;
    sink = std::make_shared<mirror_sink>(u, word, before);
  }
  worker_.session->expect_bulk(u.sequence, std::move(sink), u.bytes);
  auto result = word ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  if (u.when_reached) {
    auto told = std::make_unique<told_when_reached>(told_when_reached{worker_, u.sequence, u.lane});
    if (result == CUDA_SUCCESS) result = d.cuStreamAddCallback(s.native, &tell, told.get(), 0);
    if (result == CUDA_SUCCESS)
      static_cast<void>(told.release());
    else
      tell_client(worker_, u.sequence, u.lane);
  }
  return result == CUDA_SUCCESS ? issue_segments(u, s, word->device, before) : result;
}

void uploads::refuse(const upload& u) {
  worker_.session->expect_bulk(u.sequence, nullptr, u.bytes);
  if (u.when_reached) tell_client(worker_, u.sequence, u.lane);
}

CUresult uploads::issue_segments(const upload& u, const stream_reference& s, CUdeviceptr word,
                                 std::uint32_t before) {
  const auto& d = worker_.driver();
  const auto segment = wire::limits::upload_segment_bytes(u.bytes);
  recycle();
  auto result = CUDA_SUCCESS;
  const auto event = worker_.events.acquire(s.context, result);
  std::uint32_t value = before;
  for (std::uint64_t at = 0; at < u.bytes && result == CUDA_SUCCESS; at += segment) {
    result = d.cuStreamWaitValue32_v2(s.native, word, ++value, CU_STREAM_WAIT_VALUE_GEQ);
    if (result != CUDA_SUCCESS) break;
    result =
        d.cuMemcpyHtoDAsync_v2(u.destination + at, u.source->memory() + u.offset + at,
                               static_cast<std::size_t>(std::min(segment, u.bytes - at)), s.native);
  }
  if (event != nullptr && d.cuEventRecord(event, s.native) == CUDA_SUCCESS) {
    std::lock_guard lock(mutex_);
    outstanding_.push_back({u.source, event, s.context});
  } else {
    worker_.events.release(event, s.context);
  }
  return result;
}

// Streams finish in any order, so a slow one at the head must not keep the others.
void uploads::recycle() {
  std::lock_guard lock(mutex_);
  std::size_t looked_at = 0;
  for (auto at = outstanding_.begin(); at != outstanding_.end() && looked_at < 8; ++looked_at) {
    enter_context(worker_, at->context);
    if (worker_.driver().cuEventQuery(at->event) == CUDA_ERROR_NOT_READY) {
      ++at;
      continue;
    }
    worker_.events.release(at->event, at->context);
    at = outstanding_.erase(at);
  }
}

template <class Chosen>
void uploads::settle(Chosen chosen) {
  std::list<outstanding> own;
  {
    std::lock_guard lock(mutex_);
    for (auto at = outstanding_.begin(); at != outstanding_.end();) {
      const auto here = at++;
      if (chosen(*here)) own.splice(own.end(), outstanding_, here);
    }
  }
  for (const auto& o : own) {
    enter_context(worker_, o.context);
    worker_.driver().cuEventSynchronize(o.event);
    worker_.events.release(o.event, o.context);
  }
}

void uploads::settle_range(std::uint64_t range) {
  settle([&](const outstanding& o) { return o.source->range() == range; });
}

void uploads::settle_context(std::uint32_t context) {
  settle([&](const outstanding& o) { return o.context == context; });
}

void uploads::context_gone(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  std::erase_if(outstanding_, [&](const outstanding& o) { return o.context == context; });
}

namespace custom {

outcome upload_from_mirror(call_context& c, const msg::upload_from_mirror::request& q) {
  auto& w = c.owner();
  if (!c.bulk() || c.called() || q.bytes == 0 || q.bytes > limits::mirror_bytes_max)
    return c.malformed();
  c.bulk_taken();
  const auto s = c.stream_of(q.stream);
  upload u;
  u.sequence = c.ticket().sequence;
  u.lane = c.ticket().lane;
  u.source = w.mirrors_of_client.find(q.range);
  u.offset = q.offset;
  u.bytes = q.bytes;
  u.destination = q.destination;
  u.when_reached = q.when_reached;
  auto result = c.failure();
  // A program that frees memory while it copies from it can bring this about.
  if (!u.source || !u.source->contains(u.offset, u.bytes)) result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && (!c.enter(s.context) || s.context == 0))
    result = CUDA_ERROR_INVALID_CONTEXT;
  if (result == CUDA_SUCCESS)
    result = w.uploads_of_client.issue(u, s);
  else
    w.uploads_of_client.refuse(u);
  for (auto i = wire::limits::upload_operations(q.bytes); i != 0; --i)
    c.count_operation(q.stream, s);
  return c.finish<msg::upload_from_mirror>(result, {});
}

namespace {

// Where the driver copies to. Beyond the bound of staging memory only many busy streams get; the
// driver may then make the executor wait.
CUresult give_place(worker& w, delivery& d, const stream_reference& s) {
  if (d.source) {
    d.data = d.source->memory() + d.offset;
    return CUDA_SUCCESS;
  }
  d.block = w.inline_staging.try_acquire(d.bytes, s.context);
  if (!d.block) d.unpinned = std::make_unique<std::byte[]>(d.bytes);
  d.data = d.block ? d.block.data : d.unpinned.get();
  return CUDA_SUCCESS;
}

}  // namespace

outcome deliver(call_context& c, const msg::deliver::request& q) {
  auto& w = c.owner();
  if (c.called() || q.bytes == 0) return c.malformed();
  const auto s = c.stream_of(q.stream);
  delivery d;
  d.sequence = c.ticket().sequence;
  d.lane = c.ticket().lane;
  d.range = q.range;
  d.offset = q.offset;
  d.bytes = q.bytes;
  d.stream = s.native;
  d.context = s.context;
  const bool small = q.bytes <= wire::limits::reply_inline_bytes_max;
  auto result = c.failure();
  if (!small) d.source = w.mirrors_of_client.find(q.range);
  if (!small && (!d.source || !d.source->contains(q.offset, q.bytes)))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && (!c.enter(s.context) || s.context == 0))
    result = CUDA_ERROR_INVALID_CONTEXT;
  if (result == CUDA_SUCCESS) d.event = w.events.acquire(s.context, result);
  if (result == CUDA_SUCCESS) result = give_place(w, d, s);
  if (result == CUDA_SUCCESS)
    result = c.driver().cuMemcpyDtoHAsync_v2(d.data, q.source, q.bytes, s.native);
  if (result == CUDA_SUCCESS) result = c.driver().cuEventRecord(d.event, s.native);
  if (result == CUDA_SUCCESS) {
    w.deliveries_to_client.add(std::move(d));
  } else {
    w.events.release(d.event, s.context);
    w.inline_staging.release(d.block);
    w.deliveries_to_client.drop(c.ticket().sequence, c.ticket().lane);
  }
  c.count_operation(q.stream, s, small ? q.bytes : 0);
  return c.finish<msg::deliver>(result, {});
}

}  // namespace custom
}  // namespace gpuwire::daemon
