// SPDX-License-Identifier: Apache-2.0
// Host object files and archives of them, as nvcc writes them: only the sections with fat binaries
// are looked at. Nothing in the file is believed; every offset is checked against its end.
#pragma once

#include <cstddef>
#include <span>

#include "image.hpp"

namespace gpuwire::softgpu {

// The PTX of an ELF object for the host. NO_BINARY_FOR_GPU when it has none.
image read_object(std::span<const std::byte> bytes);
// The PTX of all members of an archive; members without any are left out, because nothing of them
// may be needed.
image read_archive(std::span<const std::byte> bytes);

}  // namespace gpuwire::softgpu
