// SPDX-License-Identifier: Apache-2.0
#include "daemon/driver_loader.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <array>

#include "daemon/spawn.hpp"

namespace gpuwire::daemon {
namespace {

// Without these nothing that a client does could work; a driver that lacks others answers "not
// supported" for them.
constexpr std::array<const char*, 12> required_symbols = {
    "cuInit",          "cuDriverGetVersion", "cuDeviceGetCount",   "cuDeviceGetAttribute",
    "cuCtxSetCurrent", "cuMemAlloc_v2",      "cuMemFree_v2",       "cuMemcpyHtoDAsync_v2",
    "cuLaunchKernel",  "cuEventRecord",      "cuEventSynchronize", "cuDevicePrimaryCtxRetain",
};

void* lookup(const char* name, void* library) {
  return ::dlsym(library, name);
}

std::string file_of(void* library, const std::string& fallback) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr &&
      *map->l_name != 0) {
    return map->l_name;
  }
  return fallback;
}

}  // namespace

std::string soft_driver_path() {
  return own_folder() + "/../lib/libgpuwire-softcuda.so";
}

std::string soft_nvml_path() {
  return own_folder() + "/../lib/libgpuwire-softnvml.so";
}

std::variant<std::unique_ptr<loaded_driver>, std::string> load_driver(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return fmt::format(
        "cannot load the CUDA driver '{}': {}; give its path with --driver, or --driver soft for "
        "the software GPU",
        library, reason != nullptr ? reason : "no reason given");
  }
  const auto path = file_of(handle, library);
  if (::dlsym(handle, "gpuwire_instance_v1") != nullptr) {
    return fmt::format(
        "'{}' is gpuwire's own client library, which would send every call back to this daemon; "
        "give the path of the real "
        "driver with --driver, or remove the folder from LD_LIBRARY_PATH",
        path);
  }
  for (const char* symbol : required_symbols) {
    if (::dlsym(handle, symbol) == nullptr) {
      return fmt::format(
          "'{}' is not a usable CUDA driver: it has no {}; give the path of a libcuda.so.1 with "
          "--driver",
          path, symbol);
    }
  }
  auto driver = std::make_unique<loaded_driver>();
  load(driver->table, &lookup, handle);
  driver->path = path;
  return driver;
}

}  // namespace gpuwire::daemon
