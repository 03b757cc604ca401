// SPDX-License-Identifier: Apache-2.0
#include "shim/log.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace gpuwire::shim {

bool debug_log_wanted() {
  static const bool wanted = [] {
    const char* level = std::getenv("GPUWIRE_LOG");
    return level != nullptr && std::string_view(level) == "debug";
  }();
  return wanted;
}

void write_line(std::string_view text) {
  std::string line = "gpuwire: ";
  line.append(text);
  line.push_back('\n');
  write_text(line);
}

void write_text(std::string_view text) {
  // A closed stderr is the program's wish; there is nowhere else to say so.
  const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  if (written < 0) return;
}

void check_log_level() {
  static once said;
  const char* level = std::getenv("GPUWIRE_LOG");
  if (level == nullptr || *level == 0 || debug_log_wanted() || !said.first()) return;
  write_line(fmt::format("GPUWIRE_LOG is '{}', which is no level; it takes debug", level));
}

}  // namespace gpuwire::shim
