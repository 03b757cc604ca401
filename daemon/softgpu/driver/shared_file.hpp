// SPDX-License-Identifier: Apache-2.0
// Device memory as anonymous files, which other processes of the host can map. The name of a file
// says whose memory it is: a process that gets a descriptor reads that from there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpuwire::softgpu {

std::string memory_file_name(int device_ordinal);
// Which device the memory behind a descriptor is of; -1 when it is no such file.
int device_of_memory_file(int file);

// Maps a part of a file, which need not begin at a page. Nothing when that fails.
std::optional<std::uint64_t> map_shared(int file, std::uint64_t offset, std::uint64_t bytes);
void unmap_shared(std::uint64_t address, std::uint64_t bytes);

}  // namespace gpuwire::softgpu
