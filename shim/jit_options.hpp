// SPDX-License-Identifier: Apache-2.0
// JIT options of a load or a link: numbers, plain values and lists travel, logs come back, results
// are put where the caller wants them. One object belongs to one thread at a time.
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
  // CUDA_SUCCESS, or the code for options that the driver would not take either. The arrays of
  // values and the log buffers stay the caller's and must outlive take_from(); everything else is
  // copied.
  CUresult read(std::span<CUjit_option> options, void** values);

  template <class Request>
  void put_into(Request& q) const {
    q.options = {numbers_.data(), static_cast<std::uint32_t>(numbers_.size())};
    q.option_values = {values_.data(), static_cast<std::uint32_t>(values_.size())};
    q.option_texts = {texts_.data(), texts_.size()};
    q.option_addresses = {addresses_.data(), static_cast<std::uint32_t>(addresses_.size())};
  }
  template <class Request>
  void put_logs_into(Request& q) const {
    q.info_log_bytes = info_log_ != nullptr ? info_log_bytes_ : 0;
    q.error_log_bytes = error_log_ != nullptr ? error_log_bytes_ : 0;
  }
  template <class Reply>
  void take_from(const Reply& body) {
    take_logs(body.info_log, body.error_log);
    take_results(body.option_results);
  }

 private:
  CUresult add_list(CUjit_option option, const void* list, std::uint64_t count);
  void take_logs(std::string_view info, std::string_view error) const;
  void take_results(const wire::array_view<std::uint64_t>& results);

  std::vector<std::int32_t> numbers_;
  std::vector<std::uint64_t> values_;
  std::vector<std::byte> texts_;
  std::vector<std::uint64_t> addresses_;
  void** caller_values_ = nullptr;
  char* info_log_ = nullptr;
  char* error_log_ = nullptr;
  std::uint32_t info_log_bytes_ = 0, error_log_bytes_ = 0;
};

}  // namespace gpuwire::shim
