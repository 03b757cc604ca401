// SPDX-License-Identifier: Apache-2.0
// The host's NVML inside the helper process, and what all its clients share. Made once before the
// first client; the table is immutable, the rest is thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/generated/nvml/table.hpp"
#include "daemon/nvml/handles.hpp"
#include "daemon/nvml/sessions.hpp"

namespace gpuwire::nvml {

struct host {
  library_table table;
  std::int32_t init_result = 0;  // of the library's own nvmlInit, or why there is none
  // What a function gives that the library does not have.
  std::int32_t missing_function = 0;
  bool writes_allowed = false;
  shared_handles handles;
  session_list sessions;
  // Takes what the main process has said of sessions since; the list is then as new as the client's
  // question.
  std::function<void()> refresh = [] {};

  // Loads and initialises the library; on failure init_result says so and `problem` why.
  void open(const std::string& library, std::string& problem);
};

}  // namespace gpuwire::nvml
