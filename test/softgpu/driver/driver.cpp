// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"

#include <dlfcn.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace {

void* library() {
  static void* const handle = [] {
    setenv("GPUWIRE_SOFT_DEVICES", "2", 1);
    void* opened = dlopen(GPUWIRE_SOFTCUDA, RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) throw std::runtime_error(dlerror());
    return opened;
  }();
  return handle;
}

}  // namespace

void* driver_symbol_or_null(const char* name) {
  return dlsym(library(), name);
}

void* driver_symbol(const char* name) {
  void* found = driver_symbol_or_null(name);
  if (found == nullptr) throw std::runtime_error(std::string(name) + " is not exported");
  return found;
}

std::string image_path(const std::string& name) {
  return std::string(GPUWIRE_IMAGES) + "/" + name;
}

std::vector<char> read_image_bytes(const std::string& name) {
  std::ifstream file(image_path(name), std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + image_path(name));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

test_context::test_context(CUdevice device) {
  REQUIRE_OK(driver(cuInit)(0));
  REQUIRE_OK(driver(cuCtxCreate_v4)(&handle, nullptr, 0, device));
}

test_context::~test_context() {
  driver(cuCtxDestroy_v2)(handle);
}

test_module::test_module(const char* image) {
  REQUIRE_OK(driver(cuModuleLoad)(&handle, image_path(image).c_str()));
}

CUfunction test_module::function(const char* name) const {
  CUfunction found = nullptr;
  REQUIRE_OK(driver(cuModuleGetFunction)(&found, handle, name));
  return found;
}

bool passes_in_another_process(const std::string& name,
                               const std::vector<std::pair<std::string, std::string>>& variables) {
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [variable, value] : variables) setenv(variable.c_str(), value.c_str(), 1);
    execl("/proc/self/exe", "test_softcuda", name.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}
