// SPDX-License-Identifier: Apache-2.0
// What a session owns inside its worker process, in one object that is never destroyed: a worker
// ends with _exit, and the driver takes everything of a dead process back. Each part says which
// threads use it.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/captures.hpp"
#include "daemon/credits.hpp"
#include "daemon/deliveries.hpp"
#include "daemon/device_resources.hpp"
#include "daemon/direct_memory.hpp"
#include "daemon/driver_loader.hpp"
#include "daemon/event_pool.hpp"
#include "daemon/generated/kinds.hpp"
#include "daemon/graph_book.hpp"
#include "daemon/graph_memory.hpp"
#include "daemon/handles.hpp"
#include "daemon/host_calls.hpp"
#include "daemon/inline_copies.hpp"
#include "daemon/lanes.hpp"
#include "daemon/linking.hpp"
#include "daemon/mirrors.hpp"
#include "daemon/output_capture.hpp"
#include "daemon/reaper.hpp"
#include "daemon/staging.hpp"
#include "daemon/stream_reference.hpp"
#include "daemon/thread_streams.hpp"
#include "daemon/tickets.hpp"
#include "daemon/uploads.hpp"
#include "daemon/word_pages.hpp"
#include "wire/server.hpp"

namespace gpuwire::daemon {

// What is needed to answer a command later, or to report its error.
struct call_ticket {
  std::uint64_t sequence = 0;
  std::uint32_t lane = 0;
  std::uint32_t context = 0;
  std::uint16_t call = 0;
  bool called = false;
};

struct worker {
  explicit worker(std::unique_ptr<loaded_driver> d);

  const driver_table& driver() const { return driver_->table; }
  const std::string& driver_path() const { return driver_->path; }
  handle_table& handles(handle_kind kind) { return *handles_[static_cast<std::size_t>(kind)]; }

  template <class Call>
  void answer(const call_ticket& t, CUresult result, const typename Call::reply& r) {
    if (!t.called) {
      if (result != CUDA_SUCCESS) report(t, result);
      return;
    }
    // Whatever this says to be complete, its data has to be on the way.
    if (graph_data.any()) graph_data.deliver_complete();
    if (session->reply(t.sequence, t.lane, static_cast<std::int32_t>(result), r) ==
        wire::error::limit_exceeded) {
      session->reply(t.sequence, t.lane, static_cast<std::int32_t>(CUDA_ERROR_OUT_OF_MEMORY),
                     typename Call::reply{});
    }
  }
  // The error of a command that nobody waits for.
  void report(const call_ticket& t, CUresult result);

  // A context may be destroyed by the calling lane's next driver call: waits until the daemon's own
  // housekeeping in it is over.
  void settle_context(std::uint32_t context);
  // Waits until no asynchronous copy uses the client's pinned range. Never on the executor.
  void settle_range(std::uint64_t range);
  // A context was destroyed or reset: what depended on it is gone. Any thread; before its handle
  // may be used again.
  void context_gone(std::uint32_t context);
  // An image was unloaded.
  void image_gone(wire::handle_id image);

  // Before an answer that says work is complete: what that work printed, and wrote where the client
  // can see it, goes first.
  void publish();

  // Does not return.
  [[noreturn]] void end(int code, const std::string& reason);

  std::unique_ptr<wire::server_session> session;
  event_pool events{*this};
  staging_pool inline_staging, bulk_staging;
  lane_set lanes{*this};
  reaper frees{*this};
  thread_streams streams_of_threads{*this};
  word_pages words{*this};
  credit_keeper credits{*this};
  host_calls callbacks{*this};
  mirrors mirrors_of_client{*this};
  deliveries deliveries_to_client{*this};
  uploads uploads_of_client{*this};
  inline_copies incoming{*this};
  capture_desk captures{*this};
  graph_book graphs{*this};
  graph_memory graph_data{*this};
  direct_memory direct{*this};
  output_capture output;
  ticket_desk tickets;
  link_table links;
  device_resources resources;
  std::atomic<std::uint64_t> context_epoch{
      1};  // raised when a context is made or goes: threads then set theirs anew

 private:
  std::unique_ptr<loaded_driver> driver_;
  std::array<std::unique_ptr<handle_table>, msg::handle_kinds_end> handles_;  // by kind
};

// Errors after which the context refuses everything.
bool is_sticky(CUresult result);

}  // namespace gpuwire::daemon
