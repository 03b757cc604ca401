// SPDX-License-Identifier: Apache-2.0
#include "shim/pinned.hpp"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "shim/captures.hpp"
#include "shim/host_functions.hpp"
#include "shim/log.hpp"
#include "wire/limits.hpp"
#include "wire/thread.hpp"

namespace gpuwire::shim {
namespace {

// ---- mirrors ----

struct mirror_record {
  std::mutex mutex;  // held across the call that makes the mirror
  bool asked = false, made = false, at_client_address = false, takes_uploads = false;
};

// By the range's buffer id, which is never used again.
class mirror_table {
 public:
  // Every range that an asynchronous copy used has one, mirrored or not: its release must wait.
  std::shared_ptr<mirror_record> get(std::uint64_t range) {
    {
      std::shared_lock lock(mutex_);
      if (const auto found = records_.find(range); found != records_.end()) return found->second;
    }
    std::unique_lock lock(mutex_);
    auto& place = records_[range];
    if (!place) place = std::make_shared<mirror_record>();
    return place;
  }
  bool take(std::uint64_t range) {
    std::unique_lock lock(mutex_);
    return records_.erase(range) != 0;
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<mirror_record>> records_;
};

mirror_table& table() {
  static auto* the_table = new mirror_table;
  return *the_table;
}

std::shared_ptr<mirror_record> made_mirror(const memory_range& range) {
  auto record = table().get(range.value.buffer_id);
  std::lock_guard lock(record->mutex);
  if (!record->asked) {
    msg::mirror_create::request q;
    q.range = range.value.buffer_id;
    q.address = range.base;
    q.bytes = range.bytes;
    // An earlier error is for the copy itself to report.
    const auto a = transact<msg::mirror_create>(q, {}, errors_first::no);
    record->asked = true;
    record->made = a.result == CUDA_SUCCESS;
    record->at_client_address = record->made && a.body.at_client_address;
    record->takes_uploads = record->made && a.body.takes_uploads;
    if (!record->made) {
      log_debug("pinned memory of {} bytes gets no mirror ({}); its copies wait", range.bytes,
                static_cast<int>(a.result));
    }
  }
  return record->made ? record : nullptr;
}

std::optional<memory_range> pinned_range(const void* memory, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  auto range = state().memory.find(address);
  if (!range || !range->contains(address, bytes)) return std::nullopt;
  const bool pinned =
      range->value.kind == memory_kind::pinned || range->value.kind == memory_kind::registered;
  return pinned ? range : std::nullopt;
}

// Captures have their own way with host memory, and GPUWIRE_SYNC wants every call to wait.
bool may_return_at_once() {
  return !any_capture() && !detail::posting_waits();
}

// ---- the uploading thread ----

class upload_queue {
 public:
  bool start() {
    std::lock_guard lock(mutex_);
    if (!started_) started_ = threads_.start("gpuwire-upload", [this] { send_all(); });
    return started_;
  }

  void add(std::uint64_t sequence, std::span<const std::byte> data, bool when_wanted) {
    std::lock_guard lock(mutex_);
    pending_.fetch_add(1, std::memory_order_relaxed);
    if (!when_wanted || wanted_early_.erase(sequence) != 0)
      make_ready({sequence, data});
    else
      waiting_.emplace(sequence, data);
  }

  void want(std::uint64_t sequence) {
    std::lock_guard lock(mutex_);
    const auto found = waiting_.find(sequence);
    if (found == waiting_.end()) {
      wanted_early_.insert(sequence);  // the stream was faster than the thread that posted
      return;
    }
    make_ready({sequence, found->second});
    waiting_.erase(found);
  }

  bool pending() const { return pending_.load(std::memory_order_acquire) != 0; }

 private:
  struct item {
    std::uint64_t sequence = 0;
    std::span<const std::byte> data;
  };

  void make_ready(const item& i) {
    ready_.push_back(i);
    changed_.notify_one();
  }

  void send_all() {
    for (;;) {
      item next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !ready_.empty(); });
        next = ready_.front();
        ready_.pop_front();
      }
      auto& client = *state().client;
      // A lost connection has told everybody already.
      if (client.settle_deliveries() == wire::error::ok)
        static_cast<void>(client.send_upload(next.sequence, next.data));
      pending_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  wire::thread_group threads_;
  bool started_ = false;
  std::deque<item> ready_;
  std::unordered_map<std::uint64_t, std::span<const std::byte>> waiting_;  // by sequence
  std::unordered_set<std::uint64_t> wanted_early_;
  std::atomic<std::uint64_t> pending_{0};
};

upload_queue& queue() {
  static auto* the_queue = new upload_queue;
  return *the_queue;
}

}  // namespace

CUresult wait_for_stream(const stream_target& target) {
  msg::sync::request q;
  q.scope = 0;
  q.handle = target.id;
  return call<msg::sync>(q).result;
}

bool is_still_written(const void* memory, std::size_t bytes) {
  return host_functions_pending() ||
         state().client->is_receiving({static_cast<const std::byte*>(memory), bytes});
}

bool uploads_pending() {
  return queue().pending();
}

void take_upload_wanted(std::uint64_t sequence) {
  queue().want(sequence);
}

std::optional<mirror_place> mirror_of(const void* memory, std::size_t bytes) {
  const auto range = pinned_range(memory, bytes);
  if (!range) return std::nullopt;
  const auto record = made_mirror(*range);
  if (!record) return std::nullopt;
  return mirror_place{range->value.buffer_id, reinterpret_cast<std::uint64_t>(memory) - range->base,
                      record->at_client_address, record->takes_uploads};
}

void release_mirror(const memory_range& range) {
  if (!table().take(range.value.buffer_id)) return;
  msg::mirror_release::request q;
  q.range = range.value.buffer_id;
  const auto a = transact<msg::mirror_release>(q, {}, errors_first::no);
  if (a.result != CUDA_SUCCESS)
    log_debug("the mirror of pinned memory could not be released ({})", static_cast<int>(a.result));
}

std::optional<CUresult> deliver_to_pinned(void* destination, CUdeviceptr source, std::size_t bytes,
                                          const stream_target& target) {
  if (!may_return_at_once() || !is_known_device_range(source, bytes)) return std::nullopt;
  const auto range = pinned_range(destination, bytes);
  if (!range) return std::nullopt;
  const bool small = bytes <= wire::limits::reply_inline_bytes_max;
  if (small)
    table().get(range->value.buffer_id);
  else if (!made_mirror(*range))
    return std::nullopt;
  thread_state& t = self();
  need_lane(t);
  if (const CUresult r = detail::earlier_error(t); r != CUDA_SUCCESS) return r;
  if (const CUresult r = count_operation(*target.credit, small ? bytes : 0); r != CUDA_SUCCESS)
    return r;
  msg::deliver::request q;
  q.source = source;
  q.stream = target.id;
  q.range = range->value.buffer_id;
  q.offset = reinterpret_cast<std::uint64_t>(destination) - range->base;
  q.bytes = bytes;
  const wire::command command{msg::deliver::call_id, t.lane, t.context_index()};
  const auto transport =
      state().client->post_receiving(command, q, {static_cast<std::byte*>(destination), bytes});
  return transport == wire::error::ok ? CUDA_SUCCESS : detail::transport_result(transport);
}

std::optional<CUresult> upload_from_pinned(CUdeviceptr destination, const void* source,
                                           std::size_t bytes, const stream_target& target) {
  if (!may_return_at_once() || !is_known_device_range(destination, bytes)) return std::nullopt;
  const auto range = pinned_range(source, bytes);
  if (!range) return std::nullopt;
  const bool when_reached = is_still_written(source, bytes);
  if (!when_reached && bytes < wire::limits::upload_bytes_min) return std::nullopt;
  const auto mirror = made_mirror(*range);
  if (!mirror || !mirror->takes_uploads || !queue().start()) {
    if (!when_reached) return std::nullopt;
    const CUresult r = wait_for_stream(target);
    return r == CUDA_SUCCESS ? std::nullopt : std::optional(r);
  }
  thread_state& t = self();
  need_lane(t);
  if (const CUresult r = detail::earlier_error(t); r != CUDA_SUCCESS) return r;
  for (auto i = wire::limits::upload_operations(bytes); i != 0; --i) {
    if (const CUresult r = count_operation(*target.credit, 0); r != CUDA_SUCCESS) return r;
  }
  msg::upload_from_mirror::request q;
  q.destination = destination;
  q.stream = target.id;
  q.range = range->value.buffer_id;
  q.offset = reinterpret_cast<std::uint64_t>(source) - range->base;
  q.bytes = bytes;
  q.when_reached = when_reached;
  std::uint64_t sequence = 0;
  const wire::command command{msg::upload_from_mirror::call_id, t.lane, t.context_index()};
  const auto transport = state().client->post_upload(command, q, sequence);
  if (transport != wire::error::ok) return detail::transport_result(transport);
  queue().add(sequence, {static_cast<const std::byte*>(source), bytes}, when_reached);
  return CUDA_SUCCESS;
}

}  // namespace gpuwire::shim
