// SPDX-License-Identifier: Apache-2.0
// Where the process stands with NVML: how often it was initialised, and the light connection to the
// server. The state is leaked. A child of fork keeps the count, as natively, and opens a connection
// of its own when it first asks.
//
// Any thread.
#pragma once

#include <cstdint>
#include <span>

#include "wire/generated/nvml/calls.hpp"
#include "wire/light_client.hpp"

namespace gpuwire::nvml {

// The number of the first question, which is no function of the library.
inline constexpr std::uint16_t open_call = 0x0001;

bool initialised();
std::int32_t initialise();
std::int32_t shut_down();

// NVML_SUCCESS when an answer came, whatever its result; else what the function has to return.
std::int32_t ask(const call_number& call, std::span<const std::byte> body,
                 wire::light_client::answer& out);

}  // namespace gpuwire::nvml
