// SPDX-License-Identifier: Apache-2.0
// The answering end of a light connection: reads questions and answers them one after the other, on
// the thread that calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace gpuwire::wire {

struct light_question {
  std::uint16_t call = 0;
  std::uint32_t fingerprint = 0;
  std::span<const std::byte> body;  // 8-aligned; valid until the answer is given
};

struct light_answer {
  std::int32_t result = 0;
  std::vector<std::byte> body;  // padded by serve_light
};

// Returns when the peer went away, broke a rule, or `handle` returned false; says why. Does not
// close the descriptor.
std::string serve_light(int fd,
                        const std::function<bool(const light_question&, light_answer&)>& handle);

}  // namespace gpuwire::wire
