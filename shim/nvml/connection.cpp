// SPDX-License-Identifier: Apache-2.0
#include "shim/nvml/connection.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <variant>

#include "shim/log.hpp"
#include "shim/options.hpp"
#include "shim/process_key.hpp"
#include "wire/generated/nvml/types.hpp"
#include "wire/growing_encoder.hpp"

namespace gpuwire::nvml {
namespace {

using shim::log_debug;
using shim::write_line;

struct process_state {
  pid_t owner = ::getpid();
  std::mutex mutex;
  std::atomic<std::uint32_t> inits{0};
  std::shared_ptr<wire::light_client>
      client;  // shared: a thread may still ask while another shuts down
  bool loss_told = false;
  std::string last_line;
};

std::atomic<process_state*> current{nullptr};

// A child starts anew: a lock of its parent may be held for ever, and the socket is the parent's.
process_state& state() {
  auto* known = current.load(std::memory_order_acquire);
  if (known != nullptr && known->owner == ::getpid()) return *known;
  auto* fresh = new process_state;
  if (known != nullptr) fresh->inits = known->inits.load();
  auto* const inherited = known;
  if (!current.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) {
    delete fresh;
    return *known;
  }
  if (inherited != nullptr && inherited->client) inherited->client->abandon();
  return *fresh;
}

std::int32_t fail(process_state& s, const std::string& line) {
  if (line != s.last_line) write_line(line);  // a program that tries again and again hears it once
  s.last_line = line;
  return NVML_ERROR_DRIVER_NOT_LOADED;
}

// What the server's library says of itself; the connection is there afterwards if that is success.
std::int32_t introduce(process_state& s, const std::string& server, wire::light_client& client) {
  wire::growing_encoder body;
  body(static_cast<std::uint32_t>(::getpid()));
  body.pad();
  wire::light_client::answer answer;
  if (client.ask(open_call, 0, body.bytes(), answer) != wire::error::ok)
    return fail(s, fmt::format("{}: {}", server, client.state_text()));
  log_debug("NVML: connected to {}, its library answers {}", server, answer.result);
  return answer.result;
}

std::int32_t connect(process_state& s) {
  auto options = shim::read_connection_options();
  if (!options.problem.empty()) return fail(s, options.problem);
  const auto server = wire::to_string(options.server);
  auto opened = wire::light_client::connect(
      {options.server, std::move(options.token), options.connect_timeout, shim::process_key()});
  if (const auto* failure = std::get_if<wire::connect_failure>(&opened)) {
    return fail(s, failure->text.empty()
                       ? fmt::format("cannot reach {}: {}", server, wire::describe(failure->code))
                       : failure->text);
  }
  std::shared_ptr<wire::light_client> client = std::move(std::get<0>(opened));
  const auto result = introduce(s, server, *client);
  if (result == NVML_SUCCESS) {
    s.client = std::move(client);
    s.loss_told = false;
  }
  return result;
}

std::int32_t lost(process_state& s, const std::string& text) {
  std::lock_guard lock(s.mutex);
  if (!std::exchange(s.loss_told, true))
    write_line(fmt::format(
        "{}. NVML calls return NVML_ERROR_GPU_IS_LOST until NVML is initialised anew", text));
  return NVML_ERROR_GPU_IS_LOST;
}

}  // namespace

bool initialised() {
  return state().inits.load(std::memory_order_acquire) != 0;
}

std::int32_t initialise() {
  auto& s = state();
  std::lock_guard lock(s.mutex);
  if (!s.client) {
    const auto result = connect(s);
    if (result != NVML_SUCCESS) return result;
  }
  s.inits.fetch_add(1, std::memory_order_release);
  return NVML_SUCCESS;
}

std::int32_t shut_down() {
  auto& s = state();
  std::lock_guard lock(s.mutex);
  if (s.inits.load() == 0) return NVML_ERROR_UNINITIALIZED;
  if (s.inits.fetch_sub(1) == 1) s.client.reset();
  return NVML_SUCCESS;
}

std::int32_t ask(const call_number& call, std::span<const std::byte> body,
                 wire::light_client::answer& out) {
  auto& s = state();
  std::shared_ptr<wire::light_client> client;
  {
    std::lock_guard lock(s.mutex);
    if (!s.client) {
      const auto result = connect(s);
      if (result != NVML_SUCCESS) return result;
    }
    client = s.client;
  }
  const auto code = client->ask(call.id, call.fingerprint, body, out);
  if (code == wire::error::limit_exceeded) return NVML_ERROR_INVALID_ARGUMENT;
  if (code != wire::error::ok) return lost(s, client->state_text());
  if (shim::debug_log_wanted()) log_debug("{} = {}", call.name, out.result);
  return NVML_SUCCESS;
}

}  // namespace gpuwire::nvml
