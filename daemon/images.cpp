// SPDX-License-Identifier: Apache-2.0
// Modules and libraries. One reply to a load tells everything that the client will want to know of
// its kernels.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/image_bytes.hpp"
#include "daemon/jit_options.hpp"
#include "daemon/log.hpp"

namespace gpuwire::daemon {
namespace {

using call = msg::load_image;

enum class image_kind : std::uint8_t { module = 0, library = 1 };

// Names, handles and parameter layouts of all kernels of an image.
class kernel_list {
 public:
  template <class Native, class NameOf, class ParameterOf>
  void add(Native native, std::uint64_t handle, NameOf name_of, ParameterOf parameter_of) {
    const char* name = nullptr;
    if (name_of == nullptr || name_of(&name, native) != CUDA_SUCCESS || name == nullptr) return;
    std::uint32_t count = 0;
    std::size_t offset = 0, bytes = 0;
    auto said = CUDA_ERROR_INVALID_VALUE;
    while (parameter_of != nullptr &&
           (said = parameter_of(native, count, &offset, &bytes)) == CUDA_SUCCESS) {
      offsets_.push_back(static_cast<std::uint32_t>(offset));
      bytes_.push_back(static_cast<std::uint32_t>(bytes));
      ++count;
    }
    // The client asks again when it launches the kernel with parameters.
    if (said != CUDA_ERROR_INVALID_VALUE)
      log_debug("a parameter's place is not known yet",
                {{"kernel", name}, {"result", std::to_string(said)}});
    if (!handles_.empty()) names_ += '\0';
    names_ += name;
    handles_.push_back(handle);
    counts_.push_back(count);
  }

  void tell(call::reply& r) const {
    r.kernels = {handles_.data(), static_cast<std::uint32_t>(handles_.size())};
    r.kernel_names = {reinterpret_cast<const std::byte*>(names_.data()), names_.size()};
    r.parameter_counts = {counts_.data(), static_cast<std::uint32_t>(counts_.size())};
    r.parameter_offsets = {offsets_.data(), static_cast<std::uint32_t>(offsets_.size())};
    r.parameter_bytes = {bytes_.data(), static_cast<std::uint32_t>(bytes_.size())};
  }

 private:
  std::vector<std::uint64_t> handles_;
  std::string names_;
  std::vector<std::uint32_t> counts_, offsets_, bytes_;
};

// The driver tells a kernel's layout only where a context is current, while a library may be loaded
// without one: any context that lives will do. Without one the client asks again, see
// cuFuncGetParamInfo below.
void enter_some_context(call_context& c) {
  if (c.ticket().context != 0) return;
  for (std::uint32_t index = 1; index < limits::explicit_context_first; ++index) {
    if (!c.owner().handles(handle_kind::context).find_index(index)) continue;
    if (c.enter(index)) return;
  }
}

void list_library(call_context& c, CUlibrary library, kernel_list& list) {
  const auto& d = c.driver();
  enter_some_context(c);
  unsigned count = 0;
  if (!d.cuLibraryGetKernelCount || !d.cuLibraryEnumerateKernels) return;
  if (d.cuLibraryGetKernelCount(&count, library) != CUDA_SUCCESS || count == 0) return;
  std::vector<CUkernel> kernels(count);
  if (d.cuLibraryEnumerateKernels(kernels.data(), count, library) != CUDA_SUCCESS) return;
  for (const auto kernel : kernels) {
    if (kernel != nullptr)
      list.add(kernel, c.mint<handle_kind::kernel>(kernel), d.cuKernelGetName,
               d.cuKernelGetParamInfo);
  }
}

void list_module(call_context& c, CUmodule module, kernel_list& list) {
  const auto& d = c.driver();
  unsigned count = 0;
  if (!d.cuModuleGetFunctionCount || !d.cuModuleEnumerateFunctions) return;
  if (d.cuModuleGetFunctionCount(&count, module) != CUDA_SUCCESS || count == 0) return;
  std::vector<CUfunction> functions(count);
  if (d.cuModuleEnumerateFunctions(functions.data(), count, module) != CUDA_SUCCESS) return;
  for (const auto f : functions) {
    if (f != nullptr)
      list.add(f, c.mint<handle_kind::function>(f), d.cuFuncGetName, d.cuFuncGetParamInfo);
  }
}

// The library options that carry no pointer. The driver's own copy of the image makes "binary is
// preserved" needless.
CUresult check_library_options(const call::request& q) {
  if (q.library_options.size != q.library_option_values.size) return CUDA_ERROR_INVALID_VALUE;
  for (const auto option : q.library_options) {
    if (option == CU_LIBRARY_BINARY_IS_PRESERVED) continue;
    return option == CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE ? CUDA_ERROR_NOT_SUPPORTED
                                                                       : CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

outcome load(call_context& c, const call::request& q, const image_bytes& image) {
  const auto& d = c.driver();
  call::reply r;
  jit_options options;
  kernel_list list;
  options.set_log_bytes(q.info_log_bytes, q.error_log_bytes);
  auto result = options.read(q);
  if (result == CUDA_SUCCESS) result = check_library_options(q);
  if (result != CUDA_SUCCESS) return c.finish<call>(result, r);
  if (static_cast<image_kind>(q.kind) == image_kind::library) {
    if (d.cuLibraryLoadData == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, r);
    CUlibrary library = nullptr;
    result = d.cuLibraryLoadData(&library, image.pointer(), options.options(), options.values(),
                                 options.count(), nullptr, nullptr, 0);
    if (result == CUDA_SUCCESS) {
      r.handle = c.mint<handle_kind::library>(library);
      c.image_of_minted(r.handle);
      list_library(c, library, list);
    }
  } else {
    if (d.cuModuleLoadDataEx == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, r);
    CUmodule module = nullptr;
    result = d.cuModuleLoadDataEx(&module, image.pointer(), options.count(), options.options(),
                                  options.values());
    if (result == CUDA_SUCCESS) {
      r.handle = c.mint<handle_kind::module>(module);
      c.image_of_minted(r.handle);
      list_module(c, module, list);
    }
  }
  options.tell(r);
  list.tell(r);
  if (result != CUDA_SUCCESS) {
    log_debug("the driver refused device code",
              {{"result", std::to_string(static_cast<int>(result))},
               {"bytes", std::to_string(q.image_bytes)},
               {"text", std::string(r.error_log)}});
  }
  return c.finish<call>(result, r);
}

}  // namespace

namespace custom {

outcome load_image(call_context& c, const call::request& q) {
  const bool bulk = c.bulk();
  if (q.kind > 1 || q.wrapper_version > 2 || q.image_bytes == 0 ||
      q.image_bytes > limits::image_bytes_max || q.part_bytes.size > limits::image_parts_max ||
      (!bulk && q.image.size != q.image_bytes)) {
    return c.malformed();
  }
  const auto image = image_bytes::make(q.image_bytes);
  if (bulk) {
    c.bulk_taken();
    c.owner().session->expect_bulk(c.ticket().sequence, image, q.image_bytes);
    if (image == nullptr) return c.finish<call>(CUDA_ERROR_OUT_OF_MEMORY, {});
    if (!image->wait()) return c.deferred();  // the session ends
  } else {
    if (image == nullptr) return c.finish<call>(CUDA_ERROR_OUT_OF_MEMORY, {});
    image->fill(q.image.span());
  }
  if (q.wrapper_version != 0 && !image->wrap(q.wrapper_version, q.part_bytes.span()))
    return c.malformed();
  return load(c, q, *image);
}

outcome cuLibraryGetUnifiedFunction(call_context& c,
                                    const msg::cuLibraryGetUnifiedFunction::request& q) {
  using call = msg::cuLibraryGetUnifiedFunction;
  const auto library = c.native<handle_kind::library>(q.library);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  const auto function = c.driver().cuLibraryGetUnifiedFunction;
  if (function == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const std::string symbol(q.symbol);
  void* address = nullptr;
  const auto result = function(&address, library, symbol.c_str());
  return c.finish<call>(result == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : result, {});
}

// Where a parameter lies, of a function or of a kernel whose library was loaded when no context was
// there.
outcome cuFuncGetParamInfo(call_context& c, const msg::cuFuncGetParamInfo::request& q) {
  using call = msg::cuFuncGetParamInfo;
  const auto& d = c.driver();
  std::size_t offset = 0, bytes = 0;
  auto result = CUDA_ERROR_NOT_SUPPORTED;
  if (wire::handle_kind_of(q.func) == static_cast<std::uint8_t>(handle_kind::kernel)) {
    const auto kernel = c.native<handle_kind::kernel>(q.func);
    if (!c.failed() && d.cuKernelGetParamInfo != nullptr)
      result = d.cuKernelGetParamInfo(kernel, q.paramIndex, &offset, &bytes);
  } else {
    const auto function = c.function(q.func);
    if (!c.failed() && d.cuFuncGetParamInfo != nullptr)
      result = d.cuFuncGetParamInfo(function, q.paramIndex, &offset, &bytes);
  }
  if (c.failed()) result = c.failure();
  call::reply r;
  if (result == CUDA_SUCCESS) {
    r.paramOffset = offset;
    r.paramSize = bytes;
  }
  return c.finish<call>(result, r);
}

outcome unload_image(call_context& c, const msg::unload_image::request& q) {
  using unload = msg::unload_image;
  const auto& d = c.driver();
  auto result = CUDA_ERROR_NOT_SUPPORTED;
  c.owner().direct.image_leaves(q.handle);
  if (static_cast<handle_kind>(wire::handle_kind_of(q.handle)) == handle_kind::library) {
    const auto library = c.native<handle_kind::library>(q.handle);
    if (c.failed()) return c.finish<unload>(c.failure(), {});
    if (d.cuLibraryUnload) result = d.cuLibraryUnload(library);
    if (result == CUDA_SUCCESS) c.release<handle_kind::library>(q.handle);
  } else {
    const auto module = c.native<handle_kind::module>(q.handle);
    if (c.failed()) return c.finish<unload>(c.failure(), {});
    if (d.cuModuleUnload) result = d.cuModuleUnload(module);
    if (result == CUDA_SUCCESS) c.release<handle_kind::module>(q.handle);
  }
  if (result == CUDA_SUCCESS) c.owner().image_gone(q.handle);
  c.owner().publish();
  return c.finish<unload>(result, {});
}

}  // namespace custom
}  // namespace gpuwire::daemon
