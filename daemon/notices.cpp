// SPDX-License-Identifier: Apache-2.0
#include "daemon/notices.hpp"

#include "daemon/worker.hpp"
#include "wire/generated/messages_graph.hpp"
#include "wire/generated/messages_host.hpp"

namespace gpuwire::daemon {
namespace {

void take(worker& w, const msg::graph_host_update::request& m) {
  w.graph_data.write(m.addresses.span(), m.lengths.span(), m.data.span());
}

void take(worker& w, const msg::host_call_done::request& m) {
  w.callbacks.done(m.run);
}

void take(worker& w, const msg::delivery_received::request& m) {
  w.deliveries_to_client.received(m.sequence);
}

template <class Notice>
bool decode_and_take(worker& w, wire::decoder& body) {
  typename Notice::request m;
  if (!wire::decode_from(body, m)) return false;
  take(w, m);
  return true;
}

}  // namespace

bool handle_notice(worker& w, std::uint16_t call, std::uint32_t, wire::decoder& body) {
  switch (call) {
    case msg::graph_host_update::call_id:
      return decode_and_take<msg::graph_host_update>(w, body);
    case msg::host_call_done::call_id:
      return decode_and_take<msg::host_call_done>(w, body);
    case msg::delivery_received::call_id:
      return decode_and_take<msg::delivery_received>(w, body);
    default:
      return false;
  }
}

}  // namespace gpuwire::daemon
