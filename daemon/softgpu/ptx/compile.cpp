// SPDX-License-Identifier: Apache-2.0
#include "linker.hpp"
#include "parser.hpp"

namespace gpuwire::softgpu::ptx {

std::variant<std::shared_ptr<const program>, compile_error> compile(
    std::span<const std::string_view> texts) {
  try {
    std::vector<syntax::module> modules;
    for (const auto text : texts) modules.push_back(parse(text));
    return linker(std::move(modules)).run();
  } catch (compile_failure& failure) {
    return std::move(failure.error);
  }
}

}  // namespace gpuwire::softgpu::ptx
