// SPDX-License-Identifier: Apache-2.0
// cuLibrary* and cuKernel*: code that is not bound to a context.
#include <algorithm>

#include "capture.hpp"
#include "device.hpp"
#include "guard.hpp"
#include "module.hpp"
#include "scheduler.hpp"

using namespace gpuwire::softgpu;

namespace {

void check_library_options(unsigned count, const CUlibraryOption* options) {
  require(count == 0 || options != nullptr);
  for (unsigned at = 0; at < count; ++at) {
    // The other option is a table of host functions that device code may call: not possible here.
    require(options[at] == CU_LIBRARY_BINARY_IS_PRESERVED, CUDA_ERROR_NOT_SUPPORTED);
  }
}

CUlibrary publish(std::shared_ptr<const program> code) {
  auto made = std::make_shared<library>();
  made->code = std::move(code);
  const auto count = static_cast<std::uint32_t>(made->code->code->kernels().size());
  for (std::uint32_t at = 0; at < count; ++at) {
    auto one = std::make_shared<kernel>();
    one->handle = kernels().mint();
    one->in = made;
    one->index = at;
    made->kernels.push_back(one->handle);
    kernels().insert(one->handle, one);
  }
  made->handle = libraries().mint();
  libraries().insert(made->handle, made);
  return made->handle;
}

// The function settings of a kernel on a device.
std::shared_ptr<function_settings> settings(const kernel& which, CUdevice dev) {
  device_of(dev);
  return settings_of(*which.in, which.index, dev);
}

}  // namespace

CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* options, void** values,
                           unsigned int count, CUlibraryOption* library_options, void**,
                           unsigned int library_option_count) {
  return initialised([&] {
    require(out != nullptr && code != nullptr);
    check_library_options(library_option_count, library_options);
    jit_options parsed(count, options, values);
    *out = publish(load_program(code, parsed));
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* options,
                               void** values, unsigned int count, CUlibraryOption* library_options,
                               void**, unsigned int library_option_count) {
  return initialised([&] {
    require(out != nullptr && path != nullptr);
    check_library_options(library_option_count, library_options);
    jit_options parsed(count, options, values);
    *out = publish(load_program_file(path, parsed));
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryUnload(CUlibrary handle) {
  return initialised([&] {
    check_unsafe_call();
    auto which = libraries().remove(handle);
    require(which != nullptr, CUDA_ERROR_INVALID_HANDLE);
    for (CUkernel one : which->kernels) kernels().remove(one);
    std::map<unsigned, std::shared_ptr<module>> instances;
    {
      std::lock_guard lock(which->mutex);
      instances.swap(which->instances);
    }
    for (const auto& [id, instance] : instances) unload(instance);
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  return initialised([&] {
    auto in = library_of(handle);
    require(out != nullptr && name != nullptr);
    auto found = in->code->kernels.find(name);
    require(found != in->code->kernels.end(), CUDA_ERROR_NOT_FOUND);
    *out = in->kernels[found->second];
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
  return initialised([&] {
    auto in = library_of(handle);
    require(count != nullptr);
    *count = static_cast<unsigned>(in->kernels.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned int count, CUlibrary handle) {
  return initialised([&] {
    auto in = library_of(handle);
    require(out != nullptr && count > 0);
    std::copy_n(in->kernels.begin(), std::min<std::size_t>(count, in->kernels.size()), out);
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  return with_context([&](context& current) {
    auto in = library_of(handle);
    require(out != nullptr);
    *out = instance_of(*in, current)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                            const char* name) {
  return with_context([&](context& current) {
    auto in = library_of(handle);
    require(name != nullptr);
    auto found = in->code->variables.find(name);
    require(found != in->code->variables.end(), CUDA_ERROR_NOT_FOUND);
    auto instance = instance_of(*in, current);
    if (address != nullptr) *address = instance->variable_addresses[found->second];
    if (bytes != nullptr) *bytes = in->code->code->variables()[found->second].bytes;
    return CUDA_SUCCESS;
  });
}

// The CUDA runtime asks before there is a context. All contexts may use what it gets.
CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                             const char* name) {
  return initialised([&] {
    auto in = library_of(handle);
    require(name != nullptr);
    auto found = in->code->variables.find(name);
    require(found != in->code->variables.end() &&
                in->code->code->variables()[found->second].managed,
            CUDA_ERROR_NOT_FOUND);
    auto owner = devices().front()->primary;
    try {
      owner = usable_context();
    } catch (const refusal& none) {
      require(none.code == CUDA_ERROR_INVALID_CONTEXT, none.code);
    }
    auto instance = instance_of(*in, *owner);
    if (address != nullptr) *address = instance->variable_addresses[found->second];
    if (bytes != nullptr) *bytes = in->code->code->variables()[found->second].bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  return with_context([&](context& current) {
    auto which = kernel_of(handle);
    require(out != nullptr);
    *out = function_of_kernel(*which, current)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
  return initialised([&] {
    auto which = kernel_of(handle);
    require(out != nullptr);
    *out = which->in->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetName(const char** name, CUkernel handle) {
  return initialised([&] {
    auto which = kernel_of(handle);
    require(name != nullptr);
    *name = which->info().name.c_str();
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle,
                              CUdevice dev) {
  return initialised([&] {
    auto which = kernel_of(handle);
    require(value != nullptr);
    *value = function_attribute(which->info(), *which->in->code, *settings(*which, dev), attribute);
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                              CUdevice dev) {
  return initialised([&] {
    auto which = kernel_of(handle);
    set_function_attribute(which->info(), *settings(*which, dev), attribute, value);
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice dev) {
  return initialised([&] {
    auto which = kernel_of(handle);
    require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
    settings(*which, dev)->cache_config = config;
    return CUDA_SUCCESS;
  });
}

// Asking for a context is what the real driver does here.
CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* bytes) {
  return with_context(
      [&](context&) { return parameter_info(kernel_of(handle)->info(), index, offset, bytes); });
}
