// SPDX-License-Identifier: Apache-2.0
#include "shim/pushes.hpp"

#include <cstdio>

#include "shim/direct_memory.hpp"
#include "shim/graph_memory.hpp"
#include "shim/host_functions.hpp"
#include "shim/log.hpp"
#include "shim/pinned.hpp"
#include "shim/state.hpp"
#include "shim/streams.hpp"
#include "wire/generated/call_table.hpp"
#include "wire/generated/messages.hpp"

namespace gpuwire::shim {
namespace {

void take(const msg::credit::request& m, std::uint32_t lane) {
  if (stream_credit* credit = credit_of(m.stream, m.context, lane))
    state().credits.complete(*credit, m.operations_completed, m.bytes_completed);
}

// Into the same buffer that the program's own printf uses, so that the two keep their order.
void take(const msg::printf::request& m, std::uint32_t) {
  std::FILE* file = m.descriptor == 2 ? stderr : stdout;
  if (m.text.size == 0) return;
  // As with the program's own printf, a closed stream loses the text.
  if (std::fwrite(m.text.data, 1, static_cast<std::size_t>(m.text.size), file) != m.text.size)
    return;
}

void take(const msg::posted_error::request& m, std::uint32_t) {
  process_state& s = state();
  const auto* call = msg::find_call(m.call);
  log_debug("{} of lane {} failed later with {}", call != nullptr ? call->name : "a command",
            m.lane, m.result);
  if (m.sticky) {
    explain_illegal_address(static_cast<CUresult>(m.result));
    if (context_record* c = s.contexts.find(m.context))
      c->sticky.store(m.result, std::memory_order_release);
    return;
  }
  lane_record* lane = s.lanes.find(m.lane);
  if (lane == nullptr) return;
  int none = 0;  // the first error is the one to report
  lane->error_context.store(m.context, std::memory_order_relaxed);
  lane->error.compare_exchange_strong(none, m.result, std::memory_order_release,
                                      std::memory_order_relaxed);
}

void take(const msg::graph_host_data::request& m, std::uint32_t) {
  take_graph_data(m);
}

void take(const msg::host_call::request& m, std::uint32_t) {
  take_host_call(m);
}

void take(const msg::delivery_data::request& m, std::uint32_t) {
  if (!state().client->deliver(m.sequence, {m.data.data, static_cast<std::size_t>(m.data.size)}))
    log_debug("the server delivers data that nobody asked for");
}

void take(const msg::delivery_over::request& m, std::uint32_t) {
  auto& client = *state().client;
  if (m.dropped)
    client.withdraw_delivery(m.sequence);
  else if (!client.announce_delivery(m.sequence))
    log_debug("the server announces a delivery twice");
}

void take(const msg::upload_wanted::request& m, std::uint32_t) {
  take_upload_wanted(m.sequence);
}

void take(const msg::direct_changes::request& m, std::uint32_t) {
  take_device_writes(m.address, {m.delta.data, static_cast<std::size_t>(m.delta.size)});
}

template <class Push>
bool decode_and_take(std::uint16_t call, std::uint32_t lane, wire::decoder& body) {
  if (call != Push::call_id) return false;
  typename Push::request m;
  if (wire::decode_from(body, m))
    take(m, lane);
  else
    log_debug("a malformed notice of the server ({}) is ignored", Push::name);
  return true;
}

}  // namespace

void handle_push(std::uint16_t call, std::uint32_t lane, wire::decoder& body) {
  const bool known = decode_and_take<msg::credit>(call, lane, body) ||
                     decode_and_take<msg::printf>(call, lane, body) ||
                     decode_and_take<msg::posted_error>(call, lane, body) ||
                     decode_and_take<msg::graph_host_data>(call, lane, body) ||
                     decode_and_take<msg::host_call>(call, lane, body) ||
                     decode_and_take<msg::delivery_data>(call, lane, body) ||
                     decode_and_take<msg::delivery_over>(call, lane, body) ||
                     decode_and_take<msg::upload_wanted>(call, lane, body) ||
                     decode_and_take<msg::direct_changes>(call, lane, body);
  if (!known) log_debug("a notice of the server has the unknown number {:#x}", call);
}

}  // namespace gpuwire::shim
