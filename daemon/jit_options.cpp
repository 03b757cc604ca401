// SPDX-License-Identifier: Apache-2.0
#include "daemon/jit_options.hpp"

#include "daemon/limits.hpp"

namespace gpuwire::daemon {

void jit_options::set_log_bytes(std::uint32_t info, std::uint32_t error) {
  info_.resize(std::min(info, limits::log_buffer_bytes_max));
  error_.resize(std::min(error, limits::log_buffer_bytes_max));
}

void* jit_options::list_of(CUjit_option option, std::uint64_t count, list_reader& from) {
  auto& pointers = pointers_.emplace_back();
  if (option == CU_JIT_GLOBAL_SYMBOL_ADDRESSES) {
    if (count > from.addresses.size - from.next_address) return nullptr;
    // Addresses of the GPU's code: nobody here reads what is there.
    for (std::uint64_t i = 0; i < count; ++i)
      pointers.push_back(reinterpret_cast<void*>(from.addresses[from.next_address++]));
    pointers.push_back(nullptr);
    return pointers.data();
  }
  auto& names = names_.emplace_back();
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto end = from.texts.find('\0');
    if (end == std::string_view::npos) return nullptr;
    names.emplace_back(from.texts.substr(0, end));
    from.texts.remove_prefix(end + 1);
  }
  for (auto& name : names) pointers.push_back(name.data());
  pointers.push_back(nullptr);
  return pointers.data();
}

CUresult jit_options::read(const fields& f) {
  if (f.options.size != f.values.size || f.options.size > limits::jit_options_max)
    return CUDA_ERROR_INVALID_VALUE;
  if (!counts_agree(f)) return CUDA_ERROR_INVALID_VALUE;
  names_.reserve(f.options.size);
  pointers_.reserve(f.options.size);
  list_reader lists{{reinterpret_cast<const char*>(f.texts.data), f.texts.size}, f.addresses};
  for (std::uint32_t i = 0; i < f.options.size; ++i) {
    // An option of a later driver could be a pointer, and a number from a client must never be one.
    if (f.options[i] < 0 || f.options[i] >= CU_JIT_NUM_OPTIONS) return CUDA_ERROR_INVALID_VALUE;
    const auto option = static_cast<CUjit_option>(f.options[i]);
    auto value = reinterpret_cast<void*>(f.values[i]);
    switch (option) {
      case CU_JIT_INFO_LOG_BUFFER:
        value = info_.empty() ? nullptr : info_.data();
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        value = error_.empty() ? nullptr : error_.data();
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        value = reinterpret_cast<void*>(info_.size());
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        value = reinterpret_cast<void*>(error_.size());
        break;
      case CU_JIT_GLOBAL_SYMBOL_NAMES:
      case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
      case CU_JIT_REFERENCED_KERNEL_NAMES:
      case CU_JIT_REFERENCED_VARIABLE_NAMES:
        value = list_of(option, f.values[i], lists);
        if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
        break;
      default:
        break;
    }
    options_.push_back(option);
    values_.push_back(value);
  }
  return CUDA_SUCCESS;
}

// The driver believes the count options, so each must be as long as the lists that go with it, and
// none without a list.
bool jit_options::counts_agree(const fields& f) {
  constexpr CUjit_option lists_with_counts[][2] = {
      {CU_JIT_GLOBAL_SYMBOL_NAMES, CU_JIT_GLOBAL_SYMBOL_COUNT},
      {CU_JIT_GLOBAL_SYMBOL_ADDRESSES, CU_JIT_GLOBAL_SYMBOL_COUNT},
      {CU_JIT_REFERENCED_KERNEL_NAMES, CU_JIT_REFERENCED_KERNEL_COUNT},
      {CU_JIT_REFERENCED_VARIABLE_NAMES, CU_JIT_REFERENCED_VARIABLE_COUNT}};
  for (const auto& [list, count] : lists_with_counts) {
    std::uint64_t list_length = 0, announced = 0;
    for (std::uint32_t i = 0; i < f.options.size; ++i) {
      if (f.options[i] == list) list_length = f.values[i];
      if (f.options[i] == count) announced = static_cast<std::uint32_t>(f.values[i]);
    }
    if (list_length != announced) return false;
  }
  return true;
}

void jit_options::collect_results() {
  results_.clear();
  for (std::size_t i = 0; i < options_.size(); ++i) {
    switch (options_[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
      case CU_JIT_ERROR_LOG_BUFFER:
      case CU_JIT_GLOBAL_SYMBOL_NAMES:
      case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
      case CU_JIT_REFERENCED_KERNEL_NAMES:
      case CU_JIT_REFERENCED_VARIABLE_NAMES:
        results_.push_back(0);  // a pointer of ours
        break;
      default:
        results_.push_back(reinterpret_cast<std::uint64_t>(values_[i]));
    }
  }
}

}  // namespace gpuwire::daemon
