// SPDX-License-Identifier: Apache-2.0
// Who computes on the soft GPU: the workers of the daemon that this process belongs to, as the
// system lists them.
#include <dirent.h>
#include <unistd.h>

#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>

#include "soft_nvml.hpp"

using namespace gpuwire::nvml;
using namespace gpuwire::softgpu;

namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The fourth word of the line; the second, a name, may hold blanks and brackets.
long parent_of(const std::string& pid) {
  const auto line = content_of("/proc/" + pid + "/stat");
  const auto end = line.rfind(')');
  return end == std::string::npos || end + 4 > line.size()
             ? -1
             : std::strtol(line.c_str() + end + 4, nullptr, 10);
}

bool is_worker(const std::string& pid) {
  const auto words = content_of("/proc/" + pid + "/cmdline");
  const auto second = std::strlen(words.c_str()) + 1;
  return second < words.size() && std::strcmp(words.c_str() + second, "--worker") == 0;
}

std::vector<std::uint32_t> workers() {
  std::vector<std::uint32_t> found;
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return found;
  while (const auto* entry = ::readdir(folder)) {
    const std::string pid = entry->d_name;
    if (!std::isdigit(static_cast<unsigned char>(pid[0]))) continue;
    if (parent_of(pid) == ::getppid() && is_worker(pid))
      found.push_back(static_cast<std::uint32_t>(std::strtoul(pid.c_str(), nullptr, 10)));
  }
  ::closedir(folder);
  return found;
}

// How much of a process's memory belongs to the device is not known.
constexpr std::uint64_t not_available = ~std::uint64_t{0};

template <class Info>
std::int32_t list(void* device, std::uint32_t* count, Info* infos,
                  const std::vector<std::uint32_t>& pids) {
  if (nvml_device_of(device) == nullptr || count == nullptr || (infos == nullptr && *count != 0))
    return NVML_ERROR_INVALID_ARGUMENT;
  const auto room = *count;
  *count = static_cast<std::uint32_t>(pids.size());
  if (room < pids.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (std::size_t i = 0; i < pids.size(); ++i) {
    infos[i] = {};
    infos[i].pid = pids[i];
    infos[i].usedGpuMemory = not_available;
    if constexpr (requires { infos[i].gpuInstanceId; })
      infos[i].gpuInstanceId = infos[i].computeInstanceId = ~0u;
  }
  return NVML_SUCCESS;
}

}  // namespace

SOFT_NVML nvmlDeviceGetComputeRunningProcesses(void* device, std::uint32_t* count,
                                               nvmlProcessInfo_v1_t* infos) {
  return list(device, count, infos, workers());
}

SOFT_NVML nvmlDeviceGetComputeRunningProcesses_v2(void* device, std::uint32_t* count,
                                                  nvmlProcessInfo_v2_t* infos) {
  return list(device, count, infos, workers());
}

SOFT_NVML nvmlDeviceGetComputeRunningProcesses_v3(void* device, std::uint32_t* count,
                                                  nvmlProcessInfo_v2_t* infos) {
  return list(device, count, infos, workers());
}

SOFT_NVML nvmlDeviceGetGraphicsRunningProcesses(void* device, std::uint32_t* count,
                                                nvmlProcessInfo_v1_t* infos) {
  return list(device, count, infos, {});
}

SOFT_NVML nvmlDeviceGetGraphicsRunningProcesses_v2(void* device, std::uint32_t* count,
                                                   nvmlProcessInfo_v2_t* infos) {
  return list(device, count, infos, {});
}

SOFT_NVML nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, std::uint32_t* count,
                                                   nvmlProcessInfo_v2_t* infos) {
  return list(device, count, infos, {});
}

SOFT_NVML nvmlSystemGetProcessName(std::uint32_t pid, char* name, std::uint32_t length) {
  if (name == nullptr || length == 0) return NVML_ERROR_INVALID_ARGUMENT;
  for (const auto worker : workers()) {
    if (worker != pid) continue;
    const auto words = content_of("/proc/" + std::to_string(pid) + "/cmdline");
    return give_text(words.c_str(), name, length);
  }
  return NVML_ERROR_NOT_FOUND;
}
