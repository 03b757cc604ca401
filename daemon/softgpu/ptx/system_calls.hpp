// SPDX-License-Identifier: Apache-2.0
// The functions that the driver provides to device code: printf, assert, malloc, free and the
// conditions of graphs.
#pragma once

#include "executor.hpp"

namespace gpuwire::softgpu::ptx {

// One lane's call; arguments and results lie in the caller's .param area.
void run_system_call(executor& x, const instruction& at, const call_site& site, std::uint32_t lane);

// What device printf makes of a format and its packed arguments. `read` copies bytes of the
// argument block and says whether they could be read; `text` fetches a string by its device
// address. `count` becomes the number of arguments.
std::string format_device(
    const std::string& format,
    const std::function<bool(std::uint32_t offset, void* to, std::uint32_t bytes)>& read,
    const std::function<std::optional<std::string>(std::uint64_t address)>& text,
    std::int32_t& count);

}  // namespace gpuwire::softgpu::ptx
