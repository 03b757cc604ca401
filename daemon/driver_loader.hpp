// SPDX-License-Identifier: Apache-2.0
// Finds the CUDA driver at run time: by name or path, never by linking. Refuses a library that is
// no driver, and our own client library, which would send the calls back to us.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "daemon/generated/driver_table.hpp"

namespace gpuwire::daemon {

struct loaded_driver {
  driver_table table;
  std::string path;  // the file the loader chose
};

// On failure: one sentence that names the library and the way out. Loads the library for good.
std::variant<std::unique_ptr<loaded_driver>, std::string> load_driver(const std::string& library);

// The path behind "soft": the library installed beside this program.
std::string soft_driver_path();
std::string soft_nvml_path();

}  // namespace gpuwire::daemon
