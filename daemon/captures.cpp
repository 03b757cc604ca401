// SPDX-License-Identifier: Apache-2.0
#include "daemon/captures.hpp"

#include <algorithm>

#include "daemon/worker.hpp"

namespace gpuwire::daemon {
namespace {
thread_local CUstreamCaptureMode mode_now = CU_STREAM_CAPTURE_MODE_GLOBAL;
}  // namespace

bool set_capture_mode(const driver_table& d, CUstreamCaptureMode mode) {
  if (mode == mode_now) return true;
  if (d.cuThreadExchangeStreamCaptureMode == nullptr) return false;
  auto exchanged = mode;
  if (d.cuThreadExchangeStreamCaptureMode(&exchanged) != CUDA_SUCCESS) return false;
  mode_now = mode;
  return true;
}

capture_mode_scope::capture_mode_scope(const driver_table& d, CUstreamCaptureMode mode)
    : driver_(d), before_(mode_now) {
  set_capture_mode(d, mode);
}

capture_mode_scope::~capture_mode_scope() {
  set_capture_mode(driver_, before_);
}

bool capture_desk::touches(CUstream stream) const {
  if (!any()) return false;
  const auto& d = worker_.driver();
  if (d.cuStreamIsCapturing == nullptr) return false;
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  // An error means the legacy stream beside a capturing blocking stream, or a stream that is no
  // more.
  return d.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool capture_desk::captures(CUstream stream) const {
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  return any() && worker_.driver().cuStreamIsCapturing != nullptr &&
         worker_.driver().cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult capture_desk::refusal(CUstream stream) const {
  const auto result = worker_.driver().cuStreamSynchronize(stream);
  return result != CUDA_SUCCESS ? result : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

bool capture_desk::in_context(std::uint32_t context) const {
  std::lock_guard lock(mutex_);
  return std::any_of(captures_.begin(), captures_.end(),
                     [&](const capture& c) { return c.context == context; });
}

void capture_desk::set_mode(std::uint32_t lane, CUstreamCaptureMode mode) {
  std::lock_guard lock(mutex_);
  if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
    modes_.erase(lane);
  else
    modes_[lane] = mode;
}

bool capture_desk::prohibits(std::uint32_t lane) const {
  if (!any()) return false;
  std::lock_guard lock(mutex_);
  const auto known = modes_.find(lane);
  const auto mode = known == modes_.end() ? CU_STREAM_CAPTURE_MODE_GLOBAL : known->second;
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  return std::any_of(captures_.begin(), captures_.end(), [&](const capture& c) {
    if (c.lane == lane) return c.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  });
}

void capture_desk::begun(CUstream stream, std::uint32_t context, std::uint32_t lane,
                         CUstreamCaptureMode mode) {
  std::lock_guard lock(mutex_);
  captures_.push_back({stream, context, lane, mode});
  active_.store(static_cast<unsigned>(captures_.size()), std::memory_order_release);
}

bool capture_desk::may_end(CUstream stream, std::uint32_t lane) const {
  std::lock_guard lock(mutex_);
  return std::none_of(captures_.begin(), captures_.end(), [&](const capture& c) {
    return c.stream == stream && c.lane != lane && c.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  });
}

void capture_desk::graph_seen(unsigned long long capture, wire::handle_id graph) {
  std::lock_guard lock(mutex_);
  graphs_[capture] = graph;
}

wire::handle_id capture_desk::graph_of(unsigned long long capture) const {
  std::lock_guard lock(mutex_);
  const auto found = graphs_.find(capture);
  return found == graphs_.end() ? 0 : found->second;
}

void capture_desk::ended(CUstream stream) {
  std::lock_guard lock(mutex_);
  std::erase_if(captures_, [&](const capture& c) { return c.stream == stream; });
  if (captures_.empty()) graphs_.clear();
  active_.store(static_cast<unsigned>(captures_.size()), std::memory_order_release);
}

void capture_desk::context_gone(std::uint32_t context) {
  std::lock_guard lock(mutex_);
  std::erase_if(captures_, [&](const capture& c) { return c.context == context; });
  active_.store(static_cast<unsigned>(captures_.size()), std::memory_order_release);
}

void capture_desk::lane_gone(std::uint32_t lane) {
  std::lock_guard lock(mutex_);
  modes_.erase(lane);
}

}  // namespace gpuwire::daemon
