// SPDX-License-Identifier: Apache-2.0
// Reads C headers with libclang. The only file pair that knows libclang.
#pragma once

#include <string>
#include <vector>

#include "model.hpp"

namespace gpuwire::gen {

// Parses the header files that the specs name. Functions count when their name has the specs'
// prefix and they return the result type; function types give the versions of each name.
headers read_headers(const specs& spec, const std::vector<std::string>& include_dirs,
                     problems& wrong);

}  // namespace gpuwire::gen
