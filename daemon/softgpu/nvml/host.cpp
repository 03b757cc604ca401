// SPDX-License-Identifier: Apache-2.0
// What the machine says of itself.
#include <fstream>
#include <mutex>
#include <sstream>

#include "soft_nvml.hpp"

namespace gpuwire::softgpu {

host_memory read_host_memory() {
  host_memory memory;
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t value = 0; file >> name >> value; std::getline(file, unit))
    if (name == "MemAvailable:") memory.available = value * 1024;
  return memory;
}

std::uint32_t processor_load() {
  static std::mutex mutex;
  static std::uint64_t busy_before = 0, all_before = 0;
  static std::uint32_t load = 0;
  std::ifstream file("/proc/stat");
  std::string line, name;
  std::getline(file, line);
  std::istringstream words(line);
  words >> name;
  std::uint64_t all = 0, idle = 0, value = 0;
  for (int i = 0; i < 8 && words >> value; ++i) {
    all += value;
    if (i == 3 || i == 4) idle += value;  // idle, waiting for a disk
  }
  std::lock_guard lock(mutex);
  const auto busy = all - idle;
  if (all > all_before)
    load = static_cast<std::uint32_t>((busy - busy_before) * 100 / (all - all_before));
  busy_before = busy;
  all_before = all;
  return load > 100 ? 100 : load;
}

}  // namespace gpuwire::softgpu
