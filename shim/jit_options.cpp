// SPDX-License-Identifier: Apache-2.0
#include "shim/jit_options.hpp"

#include <algorithm>
#include <cstring>

#include "shim/entry.hpp"

namespace gpuwire::shim {
namespace {

// What the daemon takes at most.
constexpr std::uint64_t list_entries_max = 1u << 16;

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

// The option that tells how long the list of another one is; CU_JIT_NUM_OPTIONS for an option that
// is no list.
CUjit_option count_of(CUjit_option option) {
  switch (option) {
    case CU_JIT_GLOBAL_SYMBOL_NAMES:
    case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
      return CU_JIT_GLOBAL_SYMBOL_COUNT;
    case CU_JIT_REFERENCED_KERNEL_NAMES:
      return CU_JIT_REFERENCED_KERNEL_COUNT;
    case CU_JIT_REFERENCED_VARIABLE_NAMES:
      return CU_JIT_REFERENCED_VARIABLE_COUNT;
    default:
      return CU_JIT_NUM_OPTIONS;
  }
}

std::uint32_t low_half(const void* value) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(value));
}

}  // namespace

CUresult jit_options::add_list(CUjit_option option, const void* list, std::uint64_t count) {
  if (count > list_entries_max || (count != 0 && list == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (option == CU_JIT_GLOBAL_SYMBOL_ADDRESSES) {
    auto* const addresses = static_cast<void* const*>(list);
    for (std::uint64_t i = 0; i < count; ++i)
      addresses_.push_back(reinterpret_cast<std::uint64_t>(addresses[i]));
    return CUDA_SUCCESS;
  }
  auto* const names = static_cast<const char* const*>(list);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (names[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto* const begin = reinterpret_cast<const std::byte*>(names[i]);
    texts_.insert(texts_.end(), begin, begin + std::strlen(names[i]) + 1);
  }
  return CUDA_SUCCESS;
}

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
        info_log_bytes_ = low_half(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        error_log_bytes_ = low_half(values[i]);
        break;
      default:
        break;
    }
    if (const auto count_option = count_of(options[i]); count_option != CU_JIT_NUM_OPTIONS) {
      value = 0;
      for (std::size_t k = 0; k < options.size(); ++k)
        if (options[k] == count_option) value = low_half(values[k]);
      if (const CUresult r = add_list(options[i], values[i], value); r != CUDA_SUCCESS) return r;
    }
    numbers_.push_back(static_cast<std::int32_t>(options[i]));
    values_.push_back(value);
  }
  return CUDA_SUCCESS;
}

void jit_options::take_logs(std::string_view info, std::string_view error) const {
  give_log(info, info_log_, info_log_bytes_);
  give_log(error, error_log_, error_log_bytes_);
}

void jit_options::take_results(const wire::array_view<std::uint64_t>& results) {
  if (results.size != numbers_.size()) return;
  for (std::size_t i = 0; i < numbers_.size(); ++i)
    if (is_result(numbers_[i])) caller_values_[i] = reinterpret_cast<void*>(results[i]);
}

}  // namespace gpuwire::shim
