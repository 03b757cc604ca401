// SPDX-License-Identifier: Apache-2.0
// The option arrays of module and library loads: log buffers are filled and their sizes returned;
// options that tune the machine code (registers, optimisation, debug information) have no meaning
// here and are accepted.
#pragma once

#include <cstddef>
#include <string_view>

#include "cuda_api.hpp"

namespace gpuwire::softgpu {

class jit_options {
 public:
  jit_options() = default;
  // Refuses with CUDA_ERROR_INVALID_VALUE for unknown options, 801 for those that name host
  // symbols.
  jit_options(unsigned count, CUjit_option* options, void** values);

  bool wants_error_log() const { return error_.buffer != nullptr && error_.bytes > 0; }
  // To be called once, at the end of the load. The texts are cut to the buffers' sizes.
  void finish(std::string_view error_text, float wall_time_ms);

 private:
  struct log {
    char* buffer = nullptr;
    std::size_t bytes = 0;
    void** bytes_out = nullptr;

    void write(std::string_view text) const;
  };
  log error_;
  log information_;
  void** wall_time_out_ = nullptr;
};

}  // namespace gpuwire::softgpu
