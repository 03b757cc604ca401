// SPDX-License-Identifier: Apache-2.0
// JIT options as the driver takes them, made from a client's message: our own log buffers and lists
// in place of the client's. The driver keeps pointers into this object while it compiles, and until
// the end of a link, so it never moves.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/codec.hpp"

namespace gpuwire::daemon {

class jit_options {
 public:
  jit_options() = default;
  jit_options(const jit_options&) = delete;
  jit_options& operator=(const jit_options&) = delete;

  // CUDA_SUCCESS, or the code for what cannot be an option. To be called once.
  template <class Request>
  CUresult read(const Request& q) {
    return read(fields{q.options, q.option_values, q.option_texts, q.option_addresses});
  }
  // Before read(): how large a client's log buffers are.
  void set_log_bytes(std::uint32_t info, std::uint32_t error);

  unsigned count() const { return static_cast<unsigned>(options_.size()); }
  CUjit_option* options() { return options_.empty() ? nullptr : options_.data(); }
  void** values() { return values_.empty() ? nullptr : values_.data(); }

  // Logs and results up to now. The reply's views live as long as this object and until the next
  // call.
  template <class Reply>
  void tell(Reply& r) {
    collect_results();
    r.option_results = {results_.data(), static_cast<std::uint32_t>(results_.size())};
    r.info_log = text_of(info_);
    r.error_log = text_of(error_);
  }

 private:
  struct fields {
    const wire::array_view<std::int32_t>& options;
    const wire::array_view<std::uint64_t>& values;
    const wire::bytes_view& texts;
    const wire::array_view<std::uint64_t>& addresses;
  };
  // Where the lists of a message have been read up to.
  struct list_reader {
    std::string_view texts;
    const wire::array_view<std::uint64_t>& addresses;
    std::uint64_t next_address = 0;
  };

  CUresult read(const fields& f);
  static bool counts_agree(const fields& f);
  // Null when the lists are shorter than they should be.
  void* list_of(CUjit_option option, std::uint64_t count, list_reader& from);
  void collect_results();
  static std::string_view text_of(const std::vector<char>& buffer) {
    return {buffer.begin(), std::find(buffer.begin(), buffer.end(), '\0')};
  }

  std::vector<CUjit_option> options_;
  std::vector<void*> values_;
  std::vector<char> info_, error_;
  std::vector<std::uint64_t> results_;
  // The lists that options point to; vectors of vectors keep their elements where they are.
  std::vector<std::vector<std::string>> names_;
  std::vector<std::vector<void*>> pointers_;
};

}  // namespace gpuwire::daemon
