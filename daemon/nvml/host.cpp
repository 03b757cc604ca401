// SPDX-License-Identifier: Apache-2.0
#include "daemon/nvml/host.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace gpuwire::nvml {
namespace {

void* find(const char* name, void* library) {
  return ::dlsym(library, name);
}

// Devices get their numbers in the order of their indices, so that a number means the same in the
// next helper.
void number_devices(host& h) {
  const auto& t = h.table;
  std::uint32_t count = 0;
  if (t.nvmlDeviceGetCount_v2 == nullptr || t.nvmlDeviceGetHandleByIndex_v2 == nullptr ||
      t.nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS)
    return;
  for (std::uint32_t i = 0; i < count; ++i) {
    void* device = nullptr;
    if (t.nvmlDeviceGetHandleByIndex_v2(i, &device) == NVML_SUCCESS)
      h.handles.number_of(device, kind::device);
  }
}

}  // namespace

void host::open(const std::string& library, std::string& problem) {
  init_result = NVML_ERROR_LIBRARY_NOT_FOUND;
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    problem = fmt::format("cannot load '{}': {}; give its path with --nvml-driver", library,
                          reason != nullptr ? reason : "no reason given");
    return;
  }
  if (::dlsym(handle, "gpuwire_nvml_instance_v1") != nullptr) {
    problem = fmt::format(
        "'{}' is gpuwire's own client library; give the path of the host's with --nvml-driver",
        library);
    return;
  }
  load(table, find, handle);
  using init_function = std::int32_t (*)();
  const auto init = reinterpret_cast<init_function>(::dlsym(handle, "nvmlInit_v2"));
  const bool soft = ::dlsym(handle, "gpuwire_soft_nvml_v1") != nullptr;
  missing_function = soft ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_FUNCTION_NOT_FOUND;
  if (init == nullptr) {
    problem = fmt::format("'{}' has no nvmlInit_v2", library);
    return;
  }
  init_result = init();
  if (init_result != NVML_SUCCESS)
    problem = fmt::format("nvmlInit_v2 of '{}' returns {}: clients will see the same", library,
                          init_result);
  else
    number_devices(*this);
}

}  // namespace gpuwire::nvml
