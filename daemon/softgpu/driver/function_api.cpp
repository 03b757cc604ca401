// SPDX-License-Identifier: Apache-2.0
// cuFunc*: properties of functions. All code is loaded when its module is.
#include "guard.hpp"
#include "module.hpp"

using namespace gpuwire::softgpu;

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  return initialised([&] {
    auto which = function_of(handle);
    require(value != nullptr);
    *value = function_attribute(which->info(), *which->in->code, *which->settings, attribute);
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  return initialised([&] {
    auto which = function_of(handle);
    set_function_attribute(which->info(), *which->settings, attribute, value);
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  return initialised([&] {
    auto which = function_of(handle);
    require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
    which->settings->cache_config = config;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config) {
  return initialised([&] {
    function_of(handle);
    require(config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
            config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetModule(CUmodule* out, CUfunction handle) {
  return initialised([&] {
    auto which = function_of(handle);
    require(out != nullptr);
    *out = which->in->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
  return initialised([&] {
    auto which = function_of(handle);
    require(name != nullptr);
    *name = which->info().name.c_str();
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* bytes) {
  return initialised(
      [&] { return parameter_info(function_of(handle)->info(), index, offset, bytes); });
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  return initialised([&] {
    function_of(handle);
    require(state != nullptr);
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncLoad(CUfunction handle) {
  return initialised([&] {
    function_of(handle);
    return CUDA_SUCCESS;
  });
}
