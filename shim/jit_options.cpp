// SPDX-License-Identifier: Apache-2.0
#include "shim/jit_options.hpp"

#include <algorithm>
#include <cstring>

#include "shim/entry.hpp"

namespace gpuwire::shim {
namespace {

void give_log(std::string_view text, char* buffer, std::uint32_t bytes) {
  if (buffer == nullptr || bytes == 0) return;
  const auto copied = std::min<std::size_t>(text.size(), bytes - 1);
  std::memcpy(buffer, text.data(), copied);
  buffer[copied] = 0;
}

// Options whose value the driver changes.
bool is_result(std::int32_t option) {
  return option == CU_JIT_THREADS_PER_BLOCK || option == CU_JIT_WALL_TIME ||
         option == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
         option == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
}

}  // namespace

CUresult jit_options::read(std::span<CUjit_option> options, void** values) {
  if (options.empty()) return CUDA_SUCCESS;
  if (options.data() == nullptr || values == nullptr) return CUDA_ERROR_INVALID_VALUE;
  caller_values_ = values;
  for (std::size_t i = 0; i < options.size(); ++i) {
    auto value = reinterpret_cast<std::uint64_t>(values[i]);
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
        info_log_ = static_cast<char*>(values[i]);
        value = 0;
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        error_log_ = static_cast<char*>(values[i]);
        value = 0;
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        info_log_bytes_ = static_cast<std::uint32_t>(value);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        error_log_bytes_ = static_cast<std::uint32_t>(value);
        break;
      case CU_JIT_GLOBAL_SYMBOL_NAMES:
      case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
      case CU_JIT_REFERENCED_KERNEL_NAMES:
      case CU_JIT_REFERENCED_VARIABLE_NAMES:
        return refuse("a JIT option that points to a list");
      default:
        break;
    }
    numbers_.push_back(static_cast<std::int32_t>(options[i]));
    values_.push_back(value);
  }
  return CUDA_SUCCESS;
}

void jit_options::put_into(msg::load_image::request& q) const {
  q.options = {numbers_.data(), static_cast<std::uint32_t>(numbers_.size())};
  q.option_values = {values_.data(), static_cast<std::uint32_t>(values_.size())};
  q.info_log_bytes = info_log_ != nullptr ? info_log_bytes_ : 0;
  q.error_log_bytes = error_log_ != nullptr ? error_log_bytes_ : 0;
}

void jit_options::take_from(const msg::load_image::reply& body) {
  give_log(body.info_log, info_log_, info_log_bytes_);
  give_log(body.error_log, error_log_, error_log_bytes_);
  if (body.option_results.size != numbers_.size()) return;
  for (std::size_t i = 0; i < numbers_.size(); ++i)
    if (is_result(numbers_[i])) caller_values_[i] = reinterpret_cast<void*>(body.option_results[i]);
}

}  // namespace gpuwire::shim
