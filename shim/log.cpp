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
  // A closed stderr is the program's wish; there is nowhere else to say so.
  const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  if (written < 0) return;
}

}  // namespace gpuwire::shim
