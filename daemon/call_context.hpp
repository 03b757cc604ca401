// SPDX-License-Identifier: Apache-2.0
// One command being carried out: what generated and handwritten bodies may ask of the worker around
// it. Lives on the stack of the executor, or of a lane's thread for slow calls; a body that answers
// later keeps the ticket and returns deferred().
#pragma once

#include <cstdint>
#include <type_traits>

#include "daemon/contexts.hpp"
#include "daemon/generated/kinds.hpp"
#include "daemon/worker.hpp"
#include "wire/codec.hpp"
#include "wire/header.hpp"

namespace gpuwire::daemon {

enum class outcome : std::uint8_t {
  answered,
  deferred,   // somebody else replies
  malformed,  // the session ends
};

struct pending_wait;
class executor;

class call_context {
 public:
  call_context(worker& w, executor* e, const wire::frame_header& header)
      : worker_(w),
        executor_(e),
        ticket_{header.sequence, header.lane, header.context, header.call,
                header.kind == wire::frame_kind::command_called},
        bulk_((header.flags & wire::frame_flags::bulk) != 0) {}

  worker& owner() { return worker_; }
  const driver_table& driver() const { return worker_.driver(); }
  const call_ticket& ticket() const { return ticket_; }
  bool called() const { return ticket_.called; }
  bool bulk() const { return bulk_; }
  void bulk_taken() { bulk_ = false; }

  outcome malformed() { return outcome::malformed; }
  outcome deferred() { return outcome::deferred; }

  template <class Call>
  outcome finish(CUresult result, const typename Call::reply& r) {
    worker_.answer<Call>(ticket_, as_seen_by_client(result), r);
    return outcome::answered;
  }
  // The reply of a wait that is held by the executor or begun at once on a lane's thread.
  outcome wait(pending_wait w);

  // Translations. An invalid handle marks the call failed with the driver's code and yields null.
  CUstream stream(std::uint64_t id) { return stream_of(id).native; }
  stream_reference stream_of(std::uint64_t id);
  CUfunction function(std::uint64_t id);
  template <handle_kind Kind>
  typename native_type<Kind>::type native(std::uint64_t id) {
    return reinterpret_cast<typename native_type<Kind>::type>(find(Kind, id));
  }
  bool failed() const { return failure_ != CUDA_SUCCESS; }
  CUresult failure() const { return failure_; }

  // The handle of a driver object; the same object keeps its handle.
  template <handle_kind Kind, class Native>
  std::uint64_t mint(Native native) {
    return mint(Kind, reinterpret_cast<void*>(native));
  }
  template <handle_kind Kind>
  void release(std::uint64_t id) {
    worker_.handles(Kind).remove(id);
  }
  void image_of_minted(wire::handle_id image) { image_ = image; }

  // Makes the context of a stream or event current, and returns whether that worked.
  bool enter(std::uint32_t context) { return enter_context(worker_, context); }

  // An operation was issued to the stream: see credits.hpp.
  void count_operation(std::uint64_t stream_id, const stream_reference& s, std::uint64_t bytes = 0);

 private:
  void* find(handle_kind kind, std::uint64_t id);
  CUfunction loaded(CUfunction function);
  std::uint64_t mint(handle_kind kind, void* native);
  void fail(CUresult code) {
    if (failure_ == CUDA_SUCCESS) failure_ = code;
  }
  // Work without a context that once was there: the driver has a code of its own for it.
  CUresult as_seen_by_client(CUresult result) const {
    const bool dead =
        ticket_.context != 0 && !worker_.handles(handle_kind::context).find_index(ticket_.context);
    return result == CUDA_ERROR_INVALID_CONTEXT && dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : result;
  }

  worker& worker_;
  executor* executor_;
  call_ticket ticket_;
  bool bulk_;
  CUresult failure_ = CUDA_SUCCESS;
  wire::handle_id image_ = 0;  // what newly minted kernels, functions and modules belong to
};

}  // namespace gpuwire::daemon
