// SPDX-License-Identifier: Apache-2.0
#include "shared_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace gpuwire::softgpu {
namespace {

constexpr char prefix[] = "gpuwire-soft-memory-";
constexpr std::uint64_t page = 4096;

}  // namespace

std::string memory_file_name(int device_ordinal) {
  return prefix + std::to_string(device_ordinal);
}

int device_of_memory_file(int file) {
  char path[64], name[128];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(path, name, sizeof name - 1);
  if (length <= 0) return -1;
  name[length] = '\0';
  const char* found = std::strstr(name, prefix);
  int ordinal = -1;
  if (found == nullptr || std::sscanf(found + sizeof prefix - 1, "%d", &ordinal) != 1) return -1;
  return ordinal;
}

std::optional<std::uint64_t> map_shared(int file, std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t before = offset % page;
  void* got = mmap(nullptr, before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                   static_cast<off_t>(offset - before));
  if (got == MAP_FAILED) return std::nullopt;
  return reinterpret_cast<std::uint64_t>(got) + before;
}

void unmap_shared(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t before = address % page;
  munmap(reinterpret_cast<void*>(address - before), before + bytes);
}

}  // namespace gpuwire::softgpu
