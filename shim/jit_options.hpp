// SPDX-License-Identifier: Apache-2.0
// JIT options of a load: numbers and plain values travel, logs come back, results are put where the
// caller wants them.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "wire/generated/messages.hpp"

namespace gpuwire::shim {

class jit_options {
 public:
  // CUDA_SUCCESS, or the code for an option that cannot be carried.
  CUresult read(std::span<CUjit_option> options, void** values);
  void put_into(msg::load_image::request& q) const;
  void take_from(const msg::load_image::reply& body);

 private:
  std::vector<std::int32_t> numbers_;
  std::vector<std::uint64_t> values_;
  void** caller_values_ = nullptr;
  char* info_log_ = nullptr;
  char* error_log_ = nullptr;
  std::uint32_t info_log_bytes_ = 0, error_log_bytes_ = 0;
};

}  // namespace gpuwire::shim
