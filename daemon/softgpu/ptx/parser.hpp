// SPDX-License-Identifier: Apache-2.0
// Parses one PTX text. The result views the text, which must outlive it.
#pragma once

#include <string_view>

#include "syntax.hpp"

namespace gpuwire::softgpu::ptx {

// Newest PTX version and compute capability that we claim to understand.
inline constexpr std::uint32_t ptx_version_max = 90;  // 9.0
inline constexpr std::uint32_t target_max = 90;

// Throws compile_failure.
syntax::module parse(std::string_view text);

}  // namespace gpuwire::softgpu::ptx
