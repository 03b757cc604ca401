// SPDX-License-Identifier: Apache-2.0
// Host functions in streams. They run on threads of their own, may block, and may not call CUDA.
#include "capture.hpp"
#include "guard.hpp"
#include "scheduler.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn call, void* argument) {
  return initialised([&] {
    auto on = stream_of(handle);
    require(call != nullptr);
    if (is_capturing(*on)) {
      capture_node(on, host_payload{{call, argument}});
      return CUDA_SUCCESS;
    }
    operation what;
    what.what = operation::kind::host;
    what.run = [call, argument] { call(argument); };
    scheduler::instance().submit(on, std::move(what));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback call, void* argument,
                             unsigned int flags) {
  return initialised([&] {
    auto on = stream_of(handle);
    require(call != nullptr && flags == 0);
    operation what;
    what.what = operation::kind::host;
    what.even_after_error = true;
    what.run = [call, argument, handle, in = on->in] { call(handle, in->error(), argument); };
    scheduler::instance().submit(on, std::move(what));
    return CUDA_SUCCESS;
  });
}
