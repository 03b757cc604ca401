// SPDX-License-Identifier: Apache-2.0
// What the main process tells the NVML helper: a client's connection, and which workers serve which
// client.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gpuwire::nvml {

enum class notice_kind : std::uint32_t {
  connection = 1,     // its descriptor is in the packet
  session_began = 2,  // `worker` serves the process of `process_key`
  session_ended = 3,
};

struct notice {
  notice_kind kind{};
  std::uint32_t worker = 0;
  std::uint64_t process_key = 0;
};
static_assert(std::has_unique_object_representations_v<notice>);

}  // namespace gpuwire::nvml
