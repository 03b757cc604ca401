// SPDX-License-Identifier: Apache-2.0
// Lines for stderr. The shim says nothing unasked but the one line about a server that cannot be
// reached or was lost; all else needs GPUWIRE_LOG=debug. A line is one write(2), so that lines of
// several threads do not mix.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <string_view>

namespace gpuwire::shim {

bool debug_log_wanted();                 // GPUWIRE_LOG=debug, read once
void write_line(std::string_view text);  // "gpuwire: text\n" to stderr, always
void write_text(std::string_view text);  // as it is, in one write
// Says once that GPUWIRE_LOG has a value that means nothing.
void check_log_level();

template <class... Arguments>
void log_debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (debug_log_wanted()) write_line(fmt::format(format, std::forward<Arguments>(arguments)...));
}

// One line for each place in the code however often it is reached.
class once {
 public:
  bool first() { return !done_.exchange(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> done_{false};
};

}  // namespace gpuwire::shim
