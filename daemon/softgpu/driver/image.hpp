// SPDX-License-Identifier: Apache-2.0
// From what a program hands to cuModuleLoadData to PTX text: fat binaries in every form that nvcc
// makes, and PTX itself.
//
// Images come as pointers without a length and their headers are not to be believed: everything is
// read through a copy that fails instead of faulting, and every length is checked against what
// encloses it and against the limits below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_api.hpp"

namespace gpuwire::softgpu {

inline constexpr std::uint64_t fatbin_bytes_max = 1ull << 30;
inline constexpr std::uint64_t ptx_bytes_max = 256ull << 20;
inline constexpr std::size_t linked_fatbins_max = 4096;

struct image {
  CUresult result = CUDA_SUCCESS;
  std::vector<std::string> texts;  // PTX to be linked together; one, but for -rdc=true
  std::string message;             // why result is not success, one line
};

image read_image(const void* pointer);
image read_image_file(const char* path);
// Nothing for a file that cannot be opened; of one beyond the limit, somewhat more than
// fatbin_bytes_max.
std::optional<std::string> read_file(const char* path);
// The best PTX of one fat binary, header included.
image read_fatbin(std::span<const std::byte> bytes);

// The PTX of one text, cut at its NUL.
image read_ptx(std::string_view text);
// One image of several texts, which read_fatbin gives back together: what a link of them results
// in.
std::vector<std::byte> write_linked(std::span<const std::string> texts);

}  // namespace gpuwire::softgpu
