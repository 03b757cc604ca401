// SPDX-License-Identifier: Apache-2.0
// Reads gen/spec/*.spec. The language is described in gen/README.md.
#pragma once

#include <filesystem>

#include "model.hpp"

namespace gpuwire::gen {

// All *.spec files of a folder, in the order of their names, and exports.txt if it is there.
specs read_specs(const std::filesystem::path& folder, problems& wrong);

}  // namespace gpuwire::gen
