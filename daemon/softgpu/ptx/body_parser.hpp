// SPDX-License-Identifier: Apache-2.0
// Parses a function's body into its flat statement list.
#pragma once

#include "syntax.hpp"
#include "token_stream.hpp"

namespace gpuwire::softgpu::ptx {

void parse_body(token_stream& tokens, syntax::function& into);

}  // namespace gpuwire::softgpu::ptx
