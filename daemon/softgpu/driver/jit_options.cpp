// SPDX-License-Identifier: Apache-2.0
#include "jit_options.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "guard.hpp"

namespace gpuwire::softgpu {

jit_options::jit_options(unsigned count, CUjit_option* options, void** values) {
  require(count == 0 || (options != nullptr && values != nullptr));
  for (unsigned at = 0; at < count; ++at) {
    switch (options[at]) {
      case CU_JIT_INFO_LOG_BUFFER:
        information_.buffer = static_cast<char*>(values[at]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        error_.buffer = static_cast<char*>(values[at]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        information_.bytes = reinterpret_cast<std::uintptr_t>(values[at]) & 0xffffffff;
        information_.bytes_out = &values[at];
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        error_.bytes = reinterpret_cast<std::uintptr_t>(values[at]) & 0xffffffff;
        error_.bytes_out = &values[at];
        break;
      case CU_JIT_WALL_TIME:
        wall_time_out_ = &values[at];
        break;
      case CU_JIT_GLOBAL_SYMBOL_COUNT:
        require((reinterpret_cast<std::uintptr_t>(values[at]) & 0xffffffff) == 0,
                CUDA_ERROR_NOT_SUPPORTED);
        break;
      default:
        require(options[at] >= 0 && options[at] < CU_JIT_NUM_OPTIONS);
        break;
    }
  }
}

void jit_options::log::write(std::string_view text) const {
  std::size_t written = 0;
  if (buffer != nullptr && bytes > 0) {
    written = std::min(text.size(), bytes - 1);
    std::copy_n(text.begin(), written, buffer);
    buffer[written] = '\0';
  }
  if (bytes_out != nullptr)
    *bytes_out = reinterpret_cast<void*>(static_cast<std::uintptr_t>(written));
}

void jit_options::finish(std::string_view error_text, float wall_time_ms) {
  error_.write(error_text);
  information_.write({});
  if (wall_time_out_ != nullptr) std::memcpy(wall_time_out_, &wall_time_ms, sizeof wall_time_ms);
}

}  // namespace gpuwire::softgpu
