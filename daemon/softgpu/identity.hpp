// SPDX-License-Identifier: Apache-2.0
// What the soft GPU says of itself, through CUDA and through NVML alike. Pure, but for the
// environment and the size of the machine's memory.
#pragma once

#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace gpuwire::softgpu {

inline constexpr char device_name[] = "gpuwire soft GPU";
inline constexpr unsigned devices_max = 16;
inline constexpr int device_compute_major = 9, device_compute_minor = 0;

// GPUWIRE_SOFT_DEVICES, 1 without it; nothing when it is not a number from 0 to 16.
inline std::optional<unsigned> devices_wanted() {
  const char* wanted = std::getenv("GPUWIRE_SOFT_DEVICES");
  if (wanted == nullptr) return 1;
  char* end = nullptr;
  const auto count = std::strtoul(wanted, &end, 10);
  if (end == wanted || *end != '\0' || count > devices_max) return std::nullopt;
  return static_cast<unsigned>(count);
}

// A quarter of the machine's memory.
inline std::uint64_t device_memory_bytes() {
  struct sysinfo information {};
  if (sysinfo(&information) != 0) return 1ull << 30;
  const std::uint64_t total = std::uint64_t{information.totalram} * information.mem_unit;
  constexpr std::uint64_t two_mebibytes = 2ull << 20;
  return std::max<std::uint64_t>(total / 4 / two_mebibytes * two_mebibytes, 64ull << 20);
}

inline std::array<unsigned char, 16> device_uuid(unsigned ordinal) {
  std::array<unsigned char, 16> uuid{};
  std::memcpy(uuid.data(), "gpuwire-soft", 12);
  uuid[15] = static_cast<unsigned char>(ordinal);
  return uuid;
}

inline unsigned device_bus(unsigned ordinal) {
  return (ordinal + 1) & 0xff;
}

}  // namespace gpuwire::softgpu
