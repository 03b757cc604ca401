// SPDX-License-Identifier: Apache-2.0
#include "shim/connection.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <string>
#include <variant>

#include "shim/devices.hpp"
#include "shim/entry.hpp"
#include "shim/instance.hpp"
#include "shim/log.hpp"
#include "shim/options.hpp"
#include "shim/process_key.hpp"
#include "shim/pushes.hpp"
#include "shim/result.hpp"
#include "shim/statistics.hpp"
#include "wire/client.hpp"
#include "wire/generated/call_table.hpp"

namespace gpuwire::shim {
namespace {

struct connector {
  std::mutex mutex;
  std::atomic<std::uint64_t> attempts{0};
  CUresult last_result = CUDA_SUCCESS;
  std::chrono::steady_clock::time_point shared_until{};  // by try_connection
  std::string last_line;
};

connector& the_connector() {
  static auto* c = new connector;
  return *c;
}

void connection_lost(wire::error, const std::string& text) {
  tell_connection_lost(text);
}

// The server may now send other data into the same place.
void tell_received(std::uint64_t sequence) {
  msg::delivery_received::request m;
  m.sequence = sequence;
  // A lost connection has told everybody already.
  static_cast<void>(state().client->notify(msg::delivery_received::call_id, 0, m));
}

// The child must not keep the parent's connection open, nor say anything on it.
void in_child_after_fork() {
  if (state().client) state().client->abandon_after_fork();
}

CUresult fail(const std::string& line) {
  auto& c = the_connector();
  if (line != c.last_line) write_line(line);  // a program that tries again and again hears it once
  c.last_line = line;
  return unreachable_result;
}

const char* program_name() {
  return program_invocation_short_name;
}

// The first command: who we are and what we can say; the answer describes driver and devices.
CUresult open_session(wire::client& client, std::string& problem) {
  std::vector<std::uint16_t> ids;
  std::vector<std::uint64_t> fingerprints;
  for (const auto& call : msg::call_table()) {
    ids.push_back(call.id);
    fingerprints.push_back(call.fingerprint);
  }
  msg::session_open::request q;
  q.cuda_version = CUDA_VERSION;
  q.init_flags = 0;
  q.program = program_name();
  q.call_ids = {ids.data(), static_cast<std::uint32_t>(ids.size())};
  q.fingerprints = {fingerprints.data(), static_cast<std::uint32_t>(fingerprints.size())};

  thread_state& t = self();
  need_lane(t);
  wire::reply r;
  const wire::error e = client.call({msg::session_open::call_id, t.lane, 0}, q, r);
  if (e != wire::error::ok) {
    problem = client.state_text().empty() ? wire::describe(e) : client.state_text();
    return unreachable_result;
  }
  msg::session_open::reply body;
  auto bytes = r.body();
  if (!wire::decode_from(bytes, body)) {
    problem =
        "the server's description of its devices cannot be understood; client and server do not "
        "fit";
    return unreachable_result;
  }
  if (r.result != CUDA_SUCCESS) {
    problem = fmt::format("the server could not open a session (code {})", r.result);
    return unreachable_result;
  }
  if (!body.calls_missing.empty())
    log_debug("{} calls of this library are unknown to the server", body.calls_missing.size);
  take_session(body);
  return CUDA_SUCCESS;
}

CUresult connect_now() {
  check_log_level();
  if (const auto other = other_instance(); !other.empty()) {
    return fail(
        fmt::format("a second copy of this library is already in use in the process: {}. Let the "
                    "program load one copy only "
                    "(see LD_LIBRARY_PATH and RPATH)",
                    other));
  }
  connection_options options = read_connection_options();
  if (!options.problem.empty()) return fail(options.problem);
  process_state& s = state();
  s.server_name = wire::to_string(options.server);

  wire::client_options wanted;
  wanted.server = options.server;
  wanted.token = std::move(options.token);
  wanted.connect_deadline = options.connect_timeout;
  wanted.bulk_connections = options.bulk_connections;
  wanted.environment = std::move(options.environment);
  wanted.process_key = process_key();
  wanted.on_push = handle_push;
  wanted.on_lost = connection_lost;
  wanted.on_received = tell_received;
  auto connected = wire::client::connect(std::move(wanted));
  if (const auto* failure = std::get_if<wire::connect_failure>(&connected)) {
    return fail(failure->text.empty() ? fmt::format("cannot reach {}: {}", s.server_name,
                                                    wire::describe(failure->code))
                                      : failure->text);
  }
  s.client = std::move(std::get<std::unique_ptr<wire::client>>(connected));

  std::string problem;
  const CUresult r = open_session(*s.client, problem);
  if (r != CUDA_SUCCESS) {
    // The object is leaked on purpose: its threads may still be about to use it.
    s.client->goodbye(std::chrono::milliseconds(100));
    static_cast<void>(s.client.release());
    return fail(fmt::format("{}: {}", s.server_name, problem));
  }
  static const int registered = ::pthread_atfork(nullptr, nullptr, in_child_after_fork);
  if (registered != 0) log_debug("pthread_atfork failed: a forked child keeps the connection open");
  return CUDA_SUCCESS;
}

}  // namespace

void tell_connection_lost(const std::string& why) {
  if (guard::now() == phase::ended) return;
  static auto* told = new std::once_flag;
  std::call_once(*told, [&why] {
    // The reason names the server and what to do.
    write_line(
        fmt::format("{}. Every further CUDA call returns CUDA_ERROR_EXTERNAL_DEVICE (911)", why));
    // After the line: from here on calls return without coming this way.
    guard::set(phase::lost);
    state().credits.close();
  });
}

CUresult need_connection() {
  switch (guard::now()) {
    case phase::connected:
    case phase::initialised:
      return CUDA_SUCCESS;
    case phase::lost:
      return lost_connection_result;
    case phase::ended:
      return CUDA_ERROR_DEINITIALIZED;
    case phase::untouched:
      break;
  }
  if (guard::in_forked_child()) return CUDA_ERROR_NOT_INITIALIZED;

  auto& c = the_connector();
  const auto attempts_before = c.attempts.load(std::memory_order_acquire);
  std::lock_guard lock(c.mutex);
  if (guard::now() != phase::untouched) return CUDA_SUCCESS;
  // Whoever waited for a failed attempt shares its result instead of trying again one after the
  // other.
  const bool shared = std::chrono::steady_clock::now() < std::exchange(c.shared_until, {});
  if (shared || c.attempts.load(std::memory_order_relaxed) != attempts_before) return c.last_result;
  if (!guard::arm()) {
    static once said;
    if (said.first()) log_debug("the system has no pages that are wiped on fork");
  }
  detail::counting.store(statistics_wanted(), std::memory_order_relaxed);
  c.last_result = connect_now();
  c.attempts.fetch_add(1, std::memory_order_release);
  if (c.last_result == CUDA_SUCCESS) {
    claim_instance();
    guard::set(phase::connected);
  } else {
    guard::disarm();
  }
  return c.last_result;
}

CUresult try_connection() {
  const CUresult r = need_connection();
  if (r != CUDA_SUCCESS) {
    auto& c = the_connector();
    std::lock_guard lock(c.mutex);
    c.shared_until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  }
  return r;
}

CUresult initialise() {
  process_state& s = state();
  if (guard::now() == phase::initialised) return CUDA_SUCCESS;
  if (s.init_result != CUDA_SUCCESS) return static_cast<CUresult>(s.init_result);
  // The server has devices, but the program's own CUDA_VISIBLE_DEVICES leaves none of them.
  if (s.devices.empty()) return CUDA_ERROR_NO_DEVICE;
  guard::set(phase::initialised);
  return CUDA_SUCCESS;
}

namespace {

// The end of the library comes after everything the program registered to run at exit, so that the
// CUDA runtime's last calls are still answered.
__attribute__((destructor)) void library_ends() {
  const phase p = guard::now();
  if (p == phase::lost && statistics_wanted()) print_statistics();
  if (p != phase::connected && p != phase::initialised) return;
  if (statistics_wanted()) print_statistics();
  guard::set(phase::ended);
  state().client->goodbye(std::chrono::milliseconds(1000));
}

}  // namespace
}  // namespace gpuwire::shim
