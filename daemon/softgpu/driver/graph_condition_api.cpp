// SPDX-License-Identifier: Apache-2.0
// The variables that conditional nodes look at.
#include "graph.hpp"

using namespace gpuwire::softgpu;

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph graph, CUcontext in,
                                        unsigned int default_value, unsigned int flags) {
  return with_graphs([&] {
    static CUgraphConditionalHandle last = 0;
    auto of = graph_of(graph);
    require(out != nullptr && (flags & ~static_cast<unsigned>(CU_GRAPH_COND_ASSIGN_DEFAULT)) == 0);
    auto made = std::make_shared<condition>();
    made->in = context_of(in);
    made->handle = ++last;
    made->default_value = default_value;
    made->flags = flags;
    of->conditions.push_back(made);
    *out = made->handle;
    return CUDA_SUCCESS;
  });
}
