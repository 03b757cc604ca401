// SPDX-License-Identifier: Apache-2.0
// Executable graphs that this process made. Their launches are posted, so they are looked up here
// first.
#pragma once

#include <cuda.h>

#include "shim/fork_guard.hpp"
#include "shim/state.hpp"

namespace gpuwire::shim {

// Null for a handle that is none or was destroyed.
exec_record* find_exec(CUgraphExec exec);

// Some functions of this family do nothing before cuInit and say so with success.
inline bool does_nothing_yet() {
  const phase p = guard::now();
  return (p == phase::untouched || p == phase::connected) && !guard::in_forked_child();
}

// What was handed out as the parameters of a node is no longer valid.
void forget_node_values(CUgraphNode node);
void forget_values_of_graph(CUgraph graph);

}  // namespace gpuwire::shim
