// SPDX-License-Identifier: Apache-2.0
// cuModule*: code bound to a context.
#include <algorithm>

#include "capture.hpp"
#include "guard.hpp"
#include "module.hpp"

using namespace gpuwire::softgpu;

namespace {

CUresult load(CUmodule* out, const void* image, unsigned count, CUjit_option* options,
              void** values) {
  return with_context([&](context& current) {
    require(out != nullptr && image != nullptr);
    jit_options parsed(count, options, values);
    current.flush_print();
    *out = instantiate(load_program(image, parsed), current, false)->handle;
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuModuleLoad(CUmodule* out, const char* path) {
  return with_context([&](context& current) {
    require(out != nullptr && path != nullptr);
    jit_options none;
    *out = instantiate(load_program_file(path, none), current, false)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return load(out, image, 0, nullptr, nullptr);
}

CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int count,
                            CUjit_option* options, void** values) {
  return load(out, image, count, options, values);
}

CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return load(out, image, 0, nullptr, nullptr);
}

CUresult cuModuleUnload(CUmodule handle) {
  return initialised([&] {
    auto which = module_of(handle);
    require(!which->of_library, CUDA_ERROR_NOT_PERMITTED);
    check_unsafe_call();
    require(which->owner->error() == CUDA_SUCCESS, which->owner->error());
    unload(which);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return initialised([&] {
    require(mode != nullptr);
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  return initialised([&] {
    auto in = module_of(handle);
    require(out != nullptr && name != nullptr);
    auto found = in->code->kernels.find(name);
    require(found != in->code->kernels.end(), CUDA_ERROR_NOT_FOUND);
    *out = function_of_module(in, found->second, nullptr)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
  return initialised([&] {
    auto in = module_of(handle);
    require(count != nullptr);
    *count = static_cast<unsigned>(in->code->kernels.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned int count, CUmodule handle) {
  return initialised([&] {
    auto in = module_of(handle);
    require(out != nullptr && count > 0);
    const auto available = static_cast<unsigned>(in->code->kernels.size());
    for (unsigned at = 0; at < std::min(count, available); ++at)
      out[at] = function_of_module(in, at, nullptr)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                              const char* name) {
  return initialised([&] {
    auto in = module_of(handle);
    require(name != nullptr);
    auto found = in->code->variables.find(name);
    require(found != in->code->variables.end(), CUDA_ERROR_NOT_FOUND);
    if (address != nullptr) *address = in->variable_addresses[found->second];
    if (bytes != nullptr) *bytes = in->code->code->variables()[found->second].bytes;
    return CUDA_SUCCESS;
  });
}
