// SPDX-License-Identifier: Apache-2.0
// What can be asked of loaded images: their kernels by name or number, parameters, variables.
#include <algorithm>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/images.hpp"
#include "shim/log.hpp"
#include "shim/memory.hpp"

namespace gpuwire::shim {
namespace {

// A function of a module that no load described (the module of a library): its layout is asked for,
// parameter by parameter.
bool ask_for_layout(std::uint64_t id, std::vector<parameter>& layout) {
  for (std::uint64_t i = 0;; ++i) {
    msg::cuFuncGetParamInfo::request q;
    q.func = id;
    q.paramIndex = i;
    q.paramOffset_wanted = true;
    q.paramSize_wanted = true;
    const auto a = call<msg::cuFuncGetParamInfo>(q);
    if (a.result == CUDA_ERROR_INVALID_VALUE) return true;  // one past the last
    if (a.result != CUDA_SUCCESS) return false;
    layout.push_back({static_cast<std::uint32_t>(a.body.paramOffset),
                      static_cast<std::uint32_t>(a.body.paramSize)});
  }
}

bool learn_function(std::uint64_t id, std::string name, std::uint64_t module) {
  kernel_details details;
  details.name = std::move(name);
  details.image = module;
  return ask_for_layout(id, details.parameters) && learn_kernel(id, std::move(details)) != nullptr;
}

CUresult ask_for_function(CUmodule module, const char* name, std::uint64_t& function) {
  msg::cuModuleGetFunction::request q;
  q.hfunc_wanted = true;
  q.hmod = id_of(module);
  q.name_given = true;
  q.name = name;
  const auto a = call<msg::cuModuleGetFunction>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (!learn_function(a.body.hfunc, name, id_of(module))) return CUDA_ERROR_UNKNOWN;
  function = a.body.hfunc;
  return CUDA_SUCCESS;
}

// The handle of kernel number `index`, asked for when it is still unknown. The image's mutex is not
// held: the call waits.
CUresult handle_at(image_record& image, CUmodule module, std::size_t index, std::uint64_t& handle) {
  std::string name;
  {
    std::lock_guard lock(image.mutex);
    if (index >= image.kernels.size()) return CUDA_ERROR_INVALID_HANDLE;
    handle = image.kernels[index].second;
    name = image.kernels[index].first;
  }
  if (handle != 0) return CUDA_SUCCESS;
  if (const CUresult r = ask_for_function(module, name.c_str(), handle); r != CUDA_SUCCESS)
    return r;
  std::lock_guard lock(image.mutex);
  if (index < image.kernels.size()) image.kernels[index].second = handle;
  return CUDA_SUCCESS;
}

const kernel_details* details_of(const kernel_record* k) {
  return k == nullptr ? nullptr : k->details.load(std::memory_order_acquire);
}

CUresult parameter_info(const kernel_record* k, std::size_t index, std::size_t* offset,
                        std::size_t* bytes) {
  const kernel_details* d = details_of(k);
  if (d == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (offset == nullptr || index >= d->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = d->parameters[index].offset;
  if (bytes != nullptr) *bytes = d->parameters[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace

const kernel_details* complete_layout(kernel_record& kernel) {
  const auto* known = kernel.details.load(std::memory_order_acquire);
  if (known == nullptr || kernel.layout_asked.exchange(true, std::memory_order_relaxed))
    return known;
  std::vector<parameter> layout;
  const bool answered = ask_for_layout(kernel.id.load(std::memory_order_acquire), layout);
  log_debug("the layout of {} was asked for again: {} parameters{}", known->name, layout.size(),
            answered ? "" : ", not all");
  if (!answered || layout.empty()) return known;
  auto* fresh = new kernel_details(*known);
  fresh->parameters = std::move(layout);
  fresh->parameter_bytes = parameter_block_bytes(fresh->parameters);
  kernel.details.store(fresh, std::memory_order_release);  // readers may still hold the old one
  return fresh;
}

namespace custom {

// ---- modules ----

CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  image_record* image = find_module(hmod);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (hfunc == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t function = 0;
  bool known = false;
  std::size_t index = 0;
  {
    std::lock_guard lock(image->mutex);
    const auto found = image->by_name.find(name);
    known = found != image->by_name.end();
    if (known) index = found->second;
  }
  const CUresult r =
      known ? handle_at(*image, hmod, index, function) : ask_for_function(hmod, name, function);
  // The driver writes null where there is no such function.
  if (r == CUDA_SUCCESS)
    *hfunc = handle_from<CUfunction>(function);
  else if (r == CUDA_ERROR_NOT_FOUND)
    *hfunc = nullptr;
  return r;
}

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
  image_record* image = find_module(mod);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(image->mutex);
  *count = static_cast<unsigned>(image->kernels.size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions,
                                    CUmodule mod) {
  image_record* image = find_module(mod);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (functions == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::size_t count = 0;
  {
    std::lock_guard lock(image->mutex);
    count = std::min<std::size_t>(numFunctions, image->kernels.size());
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t handle = 0;
    if (const CUresult r = handle_at(*image, mod, i, handle); r != CUDA_SUCCESS) return r;
    functions[i] = handle_from<CUfunction>(handle);
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* dptr, std::size_t* bytes, CUmodule hmod,
                              const char* name) {
  if (find_module(hmod) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr address = 0;
  std::size_t size = 0;
  const CUresult r = find_variable(false, id_of(hmod), name, address, size);
  if (r != CUDA_SUCCESS) return r;
  if (dptr != nullptr) *dptr = address;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}

// ---- libraries ----

CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  image_record* image = find_library(library);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (pKernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  {
    std::lock_guard lock(image->mutex);
    if (const auto found = image->by_name.find(name); found != image->by_name.end()) {
      *pKernel = handle_from<CUkernel>(image->kernels[found->second].second);
      return CUDA_SUCCESS;
    }
  }
  msg::cuLibraryGetKernel::request q;
  q.pKernel_wanted = true;
  q.library = id_of(library);
  q.name_given = true;
  q.name = name;
  const auto a = call<msg::cuLibraryGetKernel>(q);
  // The load named every kernel; one that only the driver knows has no layout here and could not be
  // launched.
  if (a.result == CUDA_SUCCESS) return CUDA_ERROR_NOT_FOUND;
  return a.result;
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
  image_record* image = find_library(lib);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(image->mutex);
  *count = static_cast<unsigned>(image->kernels.size());
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
  image_record* image = find_library(lib);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(image->mutex);
  const auto count = std::min<std::size_t>(numKernels, image->kernels.size());
  for (std::size_t i = 0; i < count; ++i)
    kernels[i] = handle_from<CUkernel>(image->kernels[i].second);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, std::size_t* bytes, CUlibrary library,
                            const char* name) {
  if (name == nullptr || (dptr == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (find_library(library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  msg::cuLibraryGetGlobal::request q;
  q.dptr_wanted = true;
  q.bytes_wanted = true;
  q.library = id_of(library);
  q.name_given = true;
  q.name = name;
  const auto a = cached_call<msg::cuLibraryGetGlobal>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  learn_global(a.body.dptr, a.body.bytes, q.library);
  if (dptr != nullptr) *dptr = a.body.dptr;
  if (bytes != nullptr) *bytes = a.body.bytes;
  return CUDA_SUCCESS;
}

// The driver refuses for its own reasons where there is no such function; where there is one, its
// address is one of the server's process.
CUresult cuLibraryGetUnifiedFunction(void** fptr, CUlibrary library, const char* symbol) {
  if (find_library(library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (fptr == nullptr || symbol == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::cuLibraryGetUnifiedFunction::request q;
  q.library = id_of(library);
  q.symbol_given = true;
  q.symbol = symbol;
  return call<msg::cuLibraryGetUnifiedFunction>(q).result;
}

CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  image_record* image = find_library(library);
  if (image == nullptr)
    return need_context() != CUDA_SUCCESS ? need_context() : CUDA_ERROR_INVALID_HANDLE;
  if (pMod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::cuLibraryGetModule::request q;
  q.pMod_wanted = true;
  q.library = id_of(library);
  const auto a = cached_call<msg::cuLibraryGetModule>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  *pMod = handle_from<CUmodule>(a.body.pMod);
  if (find_module(*pMod) != nullptr) return CUDA_SUCCESS;

  image_record* module = state().modules.make(wire::handle_index(a.body.pMod));
  if (module == nullptr) return CUDA_ERROR_UNKNOWN;
  std::scoped_lock lock(image->mutex, module->mutex);
  module->context = self().context_index();
  module->kernels = image->kernels;
  for (auto& [name, handle] : module->kernels) handle = 0;
  module->by_name = image->by_name;
  module->derived.clear();
  module->id.store(a.body.pMod, std::memory_order_release);
  return CUDA_SUCCESS;
}

// ---- kernels and functions ----

CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  const kernel_details* d = details_of(find_kernel(kernel));
  if (d == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (pFunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::cuKernelGetFunction::request q;
  q.pFunc_wanted = true;
  q.kernel = id_of(kernel);
  const auto a = cached_call<msg::cuKernelGetFunction>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  *pFunc = handle_from<CUfunction>(a.body.pFunc);
  if (find_function(*pFunc) != nullptr) return CUDA_SUCCESS;
  if (learn_kernel(a.body.pFunc, *d) == nullptr) return CUDA_ERROR_UNKNOWN;
  if (image_record* image = find_library(handle_from<CUlibrary>(d->image))) {
    std::lock_guard lock(image->mutex);
    image->derived.push_back(a.body.pFunc);
  }
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
  const kernel_details* d = details_of(find_kernel(kernel));
  if (d == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (pLib == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pLib = handle_from<CUlibrary>(d->image);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel hfunc) {
  const kernel_details* d = details_of(find_kernel(hfunc));
  if (d == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = d->name.c_str();
  return CUDA_SUCCESS;
}

// A function made from a kernel lies in the module that its library has in the current context.
CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  const kernel_details* d = details_of(find_function(hfunc));
  if (d == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (hmod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto library = handle_from<CUlibrary>(d->image);
  if (find_library(library) != nullptr) return custom::cuLibraryGetModule(hmod, library);
  *hmod = handle_from<CUmodule>(d->image);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
  const kernel_details* d = details_of(find_function(hfunc));
  if (d == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = d->name.c_str();
  return CUDA_SUCCESS;
}

// Setting what is set already is what libraries do before each launch; only a change is sent.
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  const auto number = static_cast<unsigned>(attrib);
  kernel_record* k = find_kernel(kernel);
  if (k != nullptr && k->attributes.is_already(number, dev, val))
    return detail::earlier_error(self());
  msg::cuKernelSetAttribute::request q;
  q.attrib = number;
  q.val = val;
  q.kernel = id_of(kernel);
  q.dev = device_ordinal(dev);
  const auto a = call<msg::cuKernelSetAttribute>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  forget_after_cuKernelSetAttribute();
  if (k != nullptr) k->attributes.remember(number, dev, val);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, std::size_t paramIndex, std::size_t* paramOffset,
                              std::size_t* paramSize) {
  return parameter_info(find_kernel(kernel), paramIndex, paramOffset, paramSize);
}
CUresult cuFuncGetParamInfo(CUfunction func, std::size_t paramIndex, std::size_t* paramOffset,
                            std::size_t* paramSize) {
  return parameter_info(find_function(func), paramIndex, paramOffset, paramSize);
}

}  // namespace custom
}  // namespace gpuwire::shim
