// SPDX-License-Identifier: Apache-2.0
// Joins headers and specs into the plan that the writers follow. Everything that does not fit is a
// problem with a place: a function that no line names, a line that names no function, an id given
// twice, a version that no symbol answers.
#pragma once

#include "model.hpp"

namespace gpuwire::gen {

// The plan points into `header` and `spec`, which must outlive it.
plan make_plan(const headers& header, specs& spec, problems& wrong);

}  // namespace gpuwire::gen
