// SPDX-License-Identifier: Apache-2.0
// Kernel launches.
#include "capture.hpp"
#include "guard.hpp"
#include "launch.hpp"
#include "scheduler.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

void launch(CUfunction handle, const launch_shape& wanted, const CUlaunchConfig* config,
            CUstream hStream, void** pointers, void** extra) {
  auto on = stream_of(hStream);
  auto prepared = prepare_launch(handle, wanted, *on->in, pointers, extra);
  if (is_capturing(*on)) {
    kernel_payload payload{std::move(prepared), {}};
    bool programmatic = false;
    for (unsigned at = 0; config != nullptr && at < config->numAttrs; ++at) {
      const auto& one = config->attrs[at];
      if (one.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        programmatic = one.value.programmaticStreamSerializationAllowed != 0;
      if (is_node_attribute(one.id)) payload.attributes.push_back(one);
    }
    capture_node(on, std::move(payload), programmatic);
    return;
  }
  operation what;
  what.what = operation::kind::kernel;
  what.kernel = make_run(prepared, on->in->heap());
  what.kernel->on = on;
  scheduler::instance().submit(on, std::move(what));
  on->in->flush_print();
}

}  // namespace

CUresult cuLaunchKernel(CUfunction f, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
                        unsigned int blockX, unsigned int blockY, unsigned int blockZ,
                        unsigned int shared_bytes, CUstream stream, void** pointers, void** extra) {
  return with_context([&](context&) {
    launch(f, make_shape({gridX, gridY, gridZ}, {blockX, blockY, blockZ}, shared_bytes), nullptr,
           stream, pointers, extra);
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridX, unsigned int gridY,
                                   unsigned int gridZ, unsigned int blockX, unsigned int blockY,
                                   unsigned int blockZ, unsigned int shared_bytes, CUstream stream,
                                   void** pointers) {
  return with_context([&](context&) {
    launch(f, make_shape({gridX, gridY, gridZ}, {blockX, blockY, blockZ}, shared_bytes, true),
           nullptr, stream, pointers, nullptr);
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** pointers,
                          void** extra) {
  return with_context([&](context&) {
    require(config != nullptr && (config->numAttrs == 0 || config->attrs != nullptr));
    launch_shape wanted = make_shape({config->gridDimX, config->gridDimY, config->gridDimZ},
                                     {config->blockDimX, config->blockDimY, config->blockDimZ},
                                     config->sharedMemBytes);
    std::vector<std::shared_ptr<event>> events;
    for (unsigned at = 0; at < config->numAttrs; ++at)
      apply_attribute(config->attrs[at], wanted, events);
    launch(f, wanted, config, config->hStream, pointers, extra);
    auto on = stream_of(config->hStream);
    for (const auto& mark : events) record_event(on, *mark);
    return CUDA_SUCCESS;
  });
}
