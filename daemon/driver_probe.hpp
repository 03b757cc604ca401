// SPDX-License-Identifier: Apache-2.0
// Tries the driver in a short-lived process, because the main process must never have CUDA in it
// and a bad driver may crash.
#pragma once

#include <string>
#include <variant>

namespace gpuwire::daemon {

struct usable_driver {
  std::string path;            // what workers load
  std::string library_folder;  // for their LD_LIBRARY_PATH; empty for the software GPU
  std::string summary;         // version, devices or the reason why there are none
};

// `driver` as given on the command line. The text of a failure names the driver and the way out.
std::variant<usable_driver, std::string> probe_driver(const std::string& driver);

// The child's side: loads, initialises, writes its findings to the inherited descriptor; returns
// the exit code.
int run_probe(const std::string& library);

}  // namespace gpuwire::daemon
