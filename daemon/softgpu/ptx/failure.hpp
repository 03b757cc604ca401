// SPDX-License-Identifier: Apache-2.0
// How the stages of the compiler give up: one exception, turned into a compile_error by compile()
// and seen by nobody else.
#pragma once

#include <string>
#include <utility>

#include "program.hpp"

namespace gpuwire::softgpu::ptx {

struct compile_failure {
  compile_error error;
};

[[noreturn]] inline void fail(compile_error_kind kind, std::uint32_t line, std::string what) {
  throw compile_failure{{kind, "line " + std::to_string(line) + ": " + std::move(what)}};
}

[[noreturn]] inline void fail_syntax(std::uint32_t line, std::string what) {
  fail(compile_error_kind::syntax, line, std::move(what));
}

}  // namespace gpuwire::softgpu::ptx
