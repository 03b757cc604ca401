// SPDX-License-Identifier: Apache-2.0
// gpuwired: one program, four roles. Without a role it serves; --worker, --nvml and --probe are how
// it starts itself.
#include <signal.h>

#include <cstdio>
#include <cstring>
#include <exception>

#include "daemon/driver_loader.hpp"
#include "daemon/driver_probe.hpp"
#include "daemon/listener.hpp"
#include "daemon/nvml/helper_main.hpp"
#include "daemon/options.hpp"
#include "daemon/worker_main.hpp"

namespace {

using namespace gpuwire::daemon;

int run_server(int argc, const char* const* argv) {
  const auto parsed = parse_options(argc, argv);
  if (const auto* end = std::get_if<early_exit>(&parsed)) {
    std::fputs(end->text.c_str(), end->code == 0 ? stdout : stderr);
    return end->code;
  }
  const auto& o = std::get<options>(parsed);
  start_log(o.level, STDERR_FILENO, "gpuwired");
  for (const auto& warning : o.warnings) log_warning(warning);
  const auto probed = probe_driver(o.driver);
  if (const auto* problem = std::get_if<std::string>(&probed)) {
    std::fprintf(stderr, "gpuwired: %s\n", problem->c_str());
    return 1;
  }
  const auto& driver = std::get<usable_driver>(probed);
  log_info("driver found", {{"path", driver.path}, {"about", driver.summary}});
  const auto nvml = !o.nvml_driver.empty() ? o.nvml_driver
                    : o.driver == "soft"   ? soft_nvml_path()
                                           : std::string("libnvidia-ml.so.1");
  return serve(o, {driver.path, driver.library_folder, o.level},
               {nvml, driver.library_folder, o.level, o.nvml_write});
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  try {
    if (argc > 1 && std::strcmp(argv[1], "--worker") == 0) return run_worker(argc, argv);
    if (argc > 1 && std::strcmp(argv[1], "--nvml") == 0) return run_nvml_helper(argc, argv);
    if (argc == 3 && std::strcmp(argv[1], "--probe") == 0) return run_probe(argv[2]);
    return run_server(argc, argv);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "gpuwired: %s\n", problem.what());
    return 1;
  }
}
