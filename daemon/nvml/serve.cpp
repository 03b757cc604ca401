// SPDX-License-Identifier: Apache-2.0
#include "daemon/nvml/serve.hpp"

#include "daemon/generated/nvml/dispatch.hpp"
#include "daemon/log.hpp"

namespace gpuwire::nvml {
namespace {

constexpr std::uint16_t open_call = 0x0001;  // as in shim/nvml/connection.hpp

bool introduce(client_of_helper& client, wire::decoder& in, wire::light_answer& a) {
  std::uint32_t pid = 0;
  in(pid);
  if (!in.finished()) return false;
  client.pid = pid;
  a.result = client.shared.init_result;
  return true;
}

}  // namespace

bool answer_question(client_of_helper& client, const wire::light_question& q,
                     wire::light_answer& a) {
  wire::decoder in(q.body.data(), q.body.size());
  if (q.call == open_call) return introduce(client, in, a);
  if (client.shared.init_result != NVML_SUCCESS) {
    a.result = client.shared.init_result;
    return true;
  }
  const auto found = find_handler(q.call);
  if (found.function == nullptr || found.call->fingerprint != q.fingerprint) {
    a.result = NVML_ERROR_NOT_SUPPORTED;  // the client was built from other declarations
    return true;
  }
  wire::growing_encoder out;
  answer one(client, in, out);
  found.function(one);
  if (one.malformed()) return false;
  a.result = one.result();
  a.body = std::move(out.bytes());
  daemon::log_debug("NVML call",
                    {{"name", found.call->name}, {"result", std::to_string(a.result)}});
  return true;
}

void release(client_of_helper& client) {
  const auto& t = client.shared.table;
  client.handles.for_each([&](void* native, int kind) {
    if (kind == kind::event_set && t.nvmlEventSetFree != nullptr) t.nvmlEventSetFree(native);
    if (kind == kind::gpm_sample && t.nvmlGpmSampleFree != nullptr) t.nvmlGpmSampleFree(native);
  });
}

}  // namespace gpuwire::nvml
