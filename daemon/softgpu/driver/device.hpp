// SPDX-License-Identifier: Apache-2.0
// The devices this process sees, made once by cuInit and immutable afterwards, apart from their
// memory accounting.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/softgpu/identity.hpp"
#include "cuda_api.hpp"

namespace gpuwire::softgpu {

class context;

namespace limits {
inline constexpr int compute_major = device_compute_major;
inline constexpr int compute_minor = device_compute_minor;
inline constexpr unsigned threads_per_block_max = 1024;
inline constexpr unsigned block_dim_max[3] = {1024, 1024, 64};
inline constexpr unsigned grid_dim_max[3] = {2147483647, 65535, 65535};
inline constexpr unsigned warp_threads = 32;
inline constexpr unsigned shared_bytes_per_block = 48 * 1024;
inline constexpr unsigned shared_bytes_per_block_optin = 227 * 1024;
inline constexpr unsigned shared_bytes_per_multiprocessor = 228 * 1024;
inline constexpr unsigned shared_bytes_reserved_per_block = 1024;
inline constexpr unsigned threads_per_multiprocessor = 2048;
inline constexpr unsigned blocks_per_multiprocessor = 32;
inline constexpr unsigned cluster_blocks_portable = 8;
inline constexpr unsigned cluster_blocks_max = 16;  // for functions that are allowed to
inline constexpr unsigned registers_per_multiprocessor = 65536;
inline constexpr unsigned constant_bytes = 65536;
inline constexpr unsigned pitch_bytes_max = 2147483647;
inline constexpr unsigned pitch_alignment = 512;
// Of arrays, as hardware of compute capability 9.0 has them.
inline constexpr unsigned texture_1d_width = 131072;
inline constexpr unsigned texture_2d_width = 131072;
inline constexpr unsigned texture_2d_height = 65536;
inline constexpr unsigned texture_3d_extent = 16384;
inline constexpr unsigned texture_layered_width = 32768;
inline constexpr unsigned texture_layers = 2048;
inline constexpr unsigned texture_cube_width = 32768;
inline constexpr unsigned texture_cube_layers = 2046;
inline constexpr unsigned texture_linear_width = 268435456;
inline constexpr unsigned texture_pitch_width = 131072;
inline constexpr unsigned texture_pitch_height = 65000;
inline constexpr unsigned texture_pitch_bytes = 2097120;
inline constexpr unsigned texture_pitch_alignment = 32;
inline constexpr unsigned texture_alignment = 512;
inline constexpr unsigned surface_width = 32768;
}  // namespace limits

struct device {
  CUdevice ordinal = 0;
  CUuuid uuid{};
  std::uint64_t memory_bytes = 0;
  unsigned multiprocessors = 1;
  std::shared_ptr<context> primary;  // exists always; active while retained

  std::string pci_bus_id() const;  // "0000:01:00.0"
};

// Reads GPUWIRE_SOFT_DEVICES; false when it is not a number from 0 to 16.
bool make_devices();
const std::vector<std::unique_ptr<device>>& devices();
// Refuses with CUDA_ERROR_INVALID_DEVICE.
device& device_of(CUdevice ordinal);

// The value of an attribute, or nothing for a number that the driver does not know either.
std::optional<int> device_attribute(const device& on, int attribute);

}  // namespace gpuwire::softgpu
