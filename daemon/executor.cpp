// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/call_context.hpp"
#include "daemon/generated/dispatch.hpp"
#include "daemon/log.hpp"
#include "wire/generated/messages.hpp"
#include "wire/parking.hpp"
#include "wire/thread.hpp"

namespace gpuwire::daemon {
namespace {

using clock = std::chrono::steady_clock;

// Long enough to cost nothing; the end of a connection wakes the executor too.
constexpr std::chrono::seconds idle_wait{3600};

// Carries one command out, on the executor or on a lane's thread.
void carry_out(worker& w, executor* e, const wire::frame_header& header,
               std::span<const std::byte> body) {
  call_context c(w, e, header);
  const auto handle = find_handler(header.call);
  if (handle == nullptr) {
    w.answer<msg::lane_end>(c.ticket(), CUDA_ERROR_NOT_SUPPORTED, {});
    return;
  }
  enter_context(w, header.context);
  std::optional<capture_mode_scope> strict;
  if (e != nullptr && w.captures.prohibits(header.lane))
    strict.emplace(w.driver(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  wire::decoder in(body.data(), body.size());
  auto result = outcome::malformed;
  try {
    result = handle(c, in);
  } catch (const std::exception& problem) {
    w.end(1, fmt::format("{}: {}", msg::find_call(header.call)->name, problem.what()));
  }
  if (result == outcome::malformed) {
    w.end(1, fmt::format("the client sent a malformed {} ({} bytes)",
                         msg::find_call(header.call)->name, body.size()));
  }
  if (c.bulk())
    w.end(1,
          fmt::format("the client announced bulk data with {}", msg::find_call(header.call)->name));
}

}  // namespace

void executor::run() {
  auto& session = *worker_.session;
  wire::spin_budget budget(wire::usable_cores(), limits::executor_spin);
  auto spin = budget.next();
  auto idle_since = clock::now();
  bool idle = true;
  for (;;) {
    if (const auto frame = session.next_frame()) {
      if (idle && spin.count() != 0) budget.spun(false);
      idle = false;
      hand_over(wait_.on_command());
      take(*frame);
      continue;
    }
    if (session.state() != wire::error::ok) break;
    const auto now = clock::now();
    if (!idle) {
      idle = true;
      idle_since = now;
      spin = budget.next();
    }
    poll();
    if (now - idle_since < spin) continue;
    hand_over(wait_.take());
    if (spin.count() != 0) budget.spun(true);
    session.wait_readable(std::chrono::duration_cast<std::chrono::microseconds>(idle_wait));
    idle = false;
  }
  worker_.end(session.said_goodbye()                            ? 0
              : session.state() == wire::error::connection_lost ? 0
                                                                : 1,
              session.said_goodbye() ? "goodbye" : session.state_text());
}

void executor::take(const wire::received_frame& frame) {
  const auto& header = frame.header;
  const auto* info = msg::find_call(header.call);
  if (info != nullptr &&
      (info->cls == msg::call_class::push || info->cls == msg::call_class::notice)) {
    worker_.end(1, fmt::format("the client sent {} as a command", info->name));
  }
  if (info != nullptr && belongs_on_lane(frame, info->slow)) return run_on_lane(frame);
  carry_out(worker_, this, header, frame.body);
}

// Only called commands may leave the order: their caller has not returned, so what is appended
// later is concurrent with them. Posted slow ones hand their driver call to the reaper themselves.
bool executor::belongs_on_lane(const wire::received_frame& frame, bool slow) const {
  if (frame.header.kind != wire::frame_kind::command_called) return false;
  // The driver is to refuse it, which only the executor's thread can bring about; what it does not refuse is not slow.
  if (worker_.captures.prohibits(frame.header.lane)) return false;
  return slow || (frame.header.call == msg::cuMemGetInfo_v2::call_id && !worker_.frees.idle());
}

void executor::run_on_lane(const wire::received_frame& frame) {
  // new[] of std::byte is 16-aligned, as views into the body need at least 8.
  auto body = std::make_shared<std::vector<std::byte>>(frame.body.begin(), frame.body.end());
  worker_.lanes.run(frame.header.lane,
                    [&w = worker_, header = frame.header, body, frees = worker_.frees.posted()] {
                      w.frees.wait_for(frees);
                      carry_out(w, nullptr, header, *body);
                    });
}

void executor::hold(pending_wait wait) {
  hand_over(wait_.offer(std::move(wait), clock::now()));
}

void executor::poll() {
  const auto* wait = wait_.polled();
  if (wait == nullptr || !is_reached(worker_, *wait)) return;
  // What the client is about to learn is complete must be sent first, which may take long.
  if (worker_.deliveries_to_client.any() && !worker_.deliveries_to_client.try_settle())
    return hand_over(wait_.take());
  finish_wait(worker_, *wait_.take(), deliveries_settled::yes);
}

void executor::hand_over(std::optional<pending_wait> wait) {
  if (!wait) return;
  worker_.lanes.run(wait->ticket.lane, [&w = worker_, wait = *wait] {
    wait_until_reached(w, wait);
    finish_wait(w, wait);
  });
}

}  // namespace gpuwire::daemon
