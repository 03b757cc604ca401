// SPDX-License-Identifier: Apache-2.0
#include "shim/instance.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "shim/entry.hpp"

namespace {
gpuwire_instance this_instance{1, 0};
}

extern "C" GPUWIRE_EXPORT gpuwire_instance* gpuwire_instance_v1() {
  return &this_instance;
}

namespace gpuwire::shim {
namespace {

int collect(dl_phdr_info* info, std::size_t, void* names) {
  if (info->dlpi_name != nullptr && std::strstr(info->dlpi_name, "libcuda") != nullptr)
    static_cast<std::vector<std::string>*>(names)->emplace_back(info->dlpi_name);
  return 0;
}

}  // namespace

std::string other_instance() {
  std::vector<std::string> names;
  ::dl_iterate_phdr(collect, &names);
  for (const auto& name : names) {
    void* library = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    using finder = gpuwire_instance* (*)();
    const auto find = reinterpret_cast<finder>(::dlsym(library, "gpuwire_instance_v1"));
    gpuwire_instance* found = find != nullptr ? find() : nullptr;
    ::dlclose(library);
    if (found == nullptr || found == &this_instance || found->abi != 1) continue;
    if (std::atomic_ref<std::uint32_t>(found->claimed).load(std::memory_order_acquire) != 0)
      return name;
  }
  return {};
}

void claim_instance() {
  std::atomic_ref<std::uint32_t>(this_instance.claimed).store(1, std::memory_order_release);
}

}  // namespace gpuwire::shim
