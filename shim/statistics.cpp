// SPDX-License-Identifier: Apache-2.0
#include "shim/statistics.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shim/log.hpp"
#include "shim/state.hpp"

namespace gpuwire::shim {
namespace {

constexpr std::size_t functions_shown = 20;

struct function_cost {
  std::uint64_t calls = 0;
  std::chrono::nanoseconds total{0}, longest{0};
};

struct cost_table {
  std::mutex mutex;
  std::unordered_map<const char*, function_cost> functions;  // by where the name lies
};

cost_table& costs() {
  static auto* the_costs = new cost_table;
  return *the_costs;
}

double milliseconds(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

// A name may lie at several places.
std::map<std::string_view, function_cost> by_name() {
  std::map<std::string_view, function_cost> joined;
  cost_table& c = costs();
  std::lock_guard lock(c.mutex);
  for (const auto& [name, cost] : c.functions) {
    auto& one = joined[name];
    one.calls += cost.calls;
    one.total += cost.total;
    one.longest = std::max(one.longest, cost.longest);
  }
  return joined;
}

void add_functions(std::string& text) {
  const auto joined = by_name();
  std::vector<std::pair<std::string_view, function_cost>> list(joined.begin(), joined.end());
  std::sort(list.begin(), list.end(),
            [](const auto& a, const auto& b) { return a.second.total > b.second.total; });
  text += fmt::format("gpuwire: {:<40} {:>10} {:>12} {:>12}\n", "function", "calls", "total ms",
                      "longest ms");
  for (std::size_t i = 0; i < list.size() && i < functions_shown; ++i) {
    const auto& [name, cost] = list[i];
    text += fmt::format("gpuwire: {:<40} {:>10} {:>12.3f} {:>12.3f}\n", name, cost.calls,
                        milliseconds(cost.total), milliseconds(cost.longest));
  }
  if (list.size() > functions_shown)
    text +=
        fmt::format("gpuwire: and {} functions that took less\n", list.size() - functions_shown);
}

}  // namespace

namespace detail {

std::atomic<bool> counting{false};

counted_call::~counted_call() {
  const auto time = std::chrono::steady_clock::now() - begin_;
  state().counts.entered.fetch_add(1, std::memory_order_relaxed);
  cost_table& c = costs();
  std::lock_guard lock(c.mutex);
  auto& cost = c.functions[name_];
  ++cost.calls;
  cost.total += time;
  cost.longest = std::max<std::chrono::nanoseconds>(cost.longest, time);
}

void count_cached_answer() {
  state().counts.cached_answers.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace detail

void print_statistics() {
  const auto wire = state().client->stats();
  const auto& counts = state().counts;
  const auto entered = counts.entered.load(std::memory_order_relaxed);
  const auto cached = counts.cached_answers.load(std::memory_order_relaxed);
  const auto elsewhere = wire.posted + wire.called + cached;
  std::string text = fmt::format("gpuwire: {} (process {}) on {}\n", program_invocation_short_name,
                                 ::getpid(), state().server_name);
  text += fmt::format(
      "gpuwire: calls of the program {}: posted {}, called {}, from the cache {}, local {}\n",
      entered, wire.posted, wire.called, cached, entered > elsewhere ? entered - elsewhere : 0);
  text += fmt::format("gpuwire: waits for an answer {}, for credit {}\n", wire.waits,
                      counts.credit_waits.load(std::memory_order_relaxed));
  text += fmt::format("gpuwire: bytes sent {} in {} sends, received {}, pushes {}\n",
                      wire.bytes_sent, wire.sends, wire.bytes_received, wire.pushes);
  add_functions(text);
  write_text(text);
}

}  // namespace gpuwire::shim
