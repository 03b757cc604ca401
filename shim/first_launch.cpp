// SPDX-License-Identifier: Apache-2.0
// Launches of CUDA 3 and older: a function carries its block, shared memory and arguments, which
// are set one by one and stay set. They become ordinary launches with one block of arguments.
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/images.hpp"

namespace gpuwire::shim {
namespace {

constexpr std::size_t arguments_max = 4096;

struct launch_state {
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  std::size_t argument_bytes = 0;
  std::array<std::byte, arguments_max> arguments{};
};

// By handle. A handle is never given out twice, so what is left of an unloaded function does no
// harm.
struct launch_states {
  std::mutex mutex;  // for all of them
  std::unordered_map<std::uint64_t, launch_state> of;
};

launch_states& states() {
  static auto* the_states = new launch_states;
  return *the_states;
}

template <class Change>
CUresult change(CUfunction function, Change&& how) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (find_function(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  launch_states& s = states();
  std::lock_guard lock(s.mutex);
  return how(s.of[id_of(function)]);
}

CUresult set_argument(CUfunction function, int offset, const void* value, unsigned bytes) {
  return change(function, [&](launch_state& s) -> CUresult {
    if (offset < 0 || value == nullptr || bytes > arguments_max ||
        static_cast<unsigned>(offset) > arguments_max - bytes)
      return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(s.arguments.data() + offset, value, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult launch_grid(CUfunction function, int width, int height, CUstream stream) {
  launch_state now;
  const CUresult r = change(function, [&](const launch_state& s) {
    now = s;
    return CUDA_SUCCESS;
  });
  if (r != CUDA_SUCCESS) return r;
  if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, now.arguments.data(),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &now.argument_bytes, CU_LAUNCH_PARAM_END};
  return custom::cuLaunchKernel(function, static_cast<unsigned>(width),
                                static_cast<unsigned>(height), 1, now.block[0], now.block[1],
                                now.block[2], now.shared_bytes, stream, nullptr, extra);
}

}  // namespace

namespace custom {

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
  return change(hfunc, [&](launch_state& s) -> CUresult {
    if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
    s.block[0] = static_cast<unsigned>(x);
    s.block[1] = static_cast<unsigned>(y);
    s.block[2] = static_cast<unsigned>(z);
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
  return change(hfunc, [&](launch_state& s) {
    s.shared_bytes = bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
  return change(hfunc, [&](launch_state& s) -> CUresult {
    if (numbytes > arguments_max) return CUDA_ERROR_INVALID_VALUE;
    s.argument_bytes = numbytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value) {
  return set_argument(hfunc, offset, &value, sizeof value);
}
CUresult cuParamSetf(CUfunction hfunc, int offset, float value) {
  return set_argument(hfunc, offset, &value, sizeof value);
}
CUresult cuParamSetv(CUfunction hfunc, int offset, void* ptr, unsigned int numbytes) {
  return set_argument(hfunc, offset, ptr, numbytes);
}

// A texture reference of a module is visible to its kernels without this; only the unit that says
// so is taken.
CUresult cuParamSetTexRef(CUfunction hfunc, int texunit, CUtexref) {
  return change(hfunc, [&](const launch_state&) {
    return texunit == CU_PARAM_TR_DEFAULT ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuLaunch(CUfunction f) {
  return launch_grid(f, 1, 1, nullptr);
}
CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
  return launch_grid(f, grid_width, grid_height, nullptr);
}
CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
  return launch_grid(f, grid_width, grid_height, hStream);
}

}  // namespace custom
}  // namespace gpuwire::shim
