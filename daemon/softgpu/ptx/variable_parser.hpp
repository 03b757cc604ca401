// SPDX-License-Identifier: Apache-2.0
// Parses declarations of variables, parameters and registers.
#pragma once

#include "syntax.hpp"
#include "token_stream.hpp"

namespace gpuwire::softgpu::ptx {

// .attribute(...), of which only .managed means anything here: returns whether it was there.
bool skip_attribute(token_stream& tokens);

// "( .param ..., .param ... )" or nothing.
std::vector<syntax::variable> parse_parameters(token_stream& tokens);

// ".global .align 4 .b8 name[16] = {...}, ... ;" after its linkage.
void parse_variables(token_stream& tokens, syntax::variable::linkage link,
                     std::vector<syntax::variable>& into);

// ".reg .b32 %r<8>, x;"
void parse_registers(token_stream& tokens, std::vector<syntax::register_declaration>& into);

}  // namespace gpuwire::softgpu::ptx
