// SPDX-License-Identifier: Apache-2.0
// Stream captures of a session. The driver ties a capture's origin, and what a thread may do while
// streams capture, to operating system threads; here one executor speaks for all threads of the
// client, so both are kept per lane. Every thread of the daemon is in relaxed mode, except the
// executor while it carries out a command of a lane that is natively prohibited from unsafe calls:
// then it is in global mode and the driver itself refuses.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "wire/handle.hpp"

namespace gpuwire::daemon {

struct worker;
struct driver_table;

// The calling thread's mode while it lives. Does nothing when the thread is in that mode already,
// or when the driver is not initialised yet.
class capture_mode_scope {
 public:
  capture_mode_scope(const driver_table& d, CUstreamCaptureMode mode);
  ~capture_mode_scope();
  capture_mode_scope(const capture_mode_scope&) = delete;
  capture_mode_scope& operator=(const capture_mode_scope&) = delete;

 private:
  const driver_table& driver_;
  CUstreamCaptureMode before_;
};

// Sets the calling thread's mode for good. False while the driver cannot yet.
bool set_capture_mode(const driver_table& d, CUstreamCaptureMode mode);

// Any thread, unless a member says otherwise.
class capture_desk {
 public:
  explicit capture_desk(worker& w) : worker_(w) {}

  // Does any stream of the session capture? One load.
  bool any() const { return active_.load(std::memory_order_acquire) != 0; }

  // Is the stream in a capture, as origin or joined, valid or not; or is it the legacy stream that
  // a capture has made unusable? The daemon may add nothing of its own to such a stream. The
  // stream's context is current.
  bool touches(CUstream stream) const;
  // Is it in a capture, rather than the legacy stream beside one?
  bool captures(CUstream stream) const;
  // What the driver says to a synchronise of such a stream, which also ends the capture's validity
  // as natively.
  CUresult refusal(CUstream stream) const;

  // Does a stream of this context capture?
  bool in_context(std::uint32_t context) const;

  void set_mode(std::uint32_t lane, CUstreamCaptureMode mode);
  // Would the driver refuse unsafe calls to this client thread?
  bool prohibits(std::uint32_t lane) const;

  void begun(CUstream stream, std::uint32_t context, std::uint32_t lane, CUstreamCaptureMode mode);
  // May this lane end the capture that began in the stream?
  bool may_end(CUstream stream, std::uint32_t lane) const;
  // The handle that the client got for the graph of the capture; 0: it did not ask.
  void graph_seen(unsigned long long capture, wire::handle_id graph);
  wire::handle_id graph_of(unsigned long long capture) const;
  void ended(CUstream stream);
  void stream_gone(CUstream stream) { ended(stream); }
  void context_gone(std::uint32_t context);
  void lane_gone(std::uint32_t lane);

 private:
  struct capture {
    CUstream stream = nullptr;
    std::uint32_t context = 0, lane = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  };

  worker& worker_;
  std::atomic<unsigned> active_{0};
  mutable std::mutex mutex_;
  std::vector<capture> captures_;
  std::unordered_map<std::uint32_t, CUstreamCaptureMode> modes_;  // of lanes that changed theirs
  std::unordered_map<unsigned long long, wire::handle_id> graphs_;
};

}  // namespace gpuwire::daemon
