// SPDX-License-Identifier: Apache-2.0
// The tables of modules, libraries, kernels and functions, and the message that fills them.
#include "shim/images.hpp"

#include <fstream>
#include <iterator>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/image.hpp"
#include "shim/jit_options.hpp"
#include "shim/log.hpp"
#include "shim/memory.hpp"
#include "wire/limits.hpp"

namespace gpuwire::shim {
namespace {

constexpr std::uint8_t kind_module = 5, kind_library = 6, kind_kernel = 7, kind_function = 8;
constexpr unsigned load_options_max = 64;

template <class Record>
Record* find_in(const flat_table<Record>& table, std::uint8_t kind, std::uint64_t id) {
  if (wire::handle_kind_of(id) != kind) return nullptr;
  Record* r = table.find(wire::handle_index(id));
  return r != nullptr && r->id.load(std::memory_order_acquire) == id ? r : nullptr;
}

// The image's parts one after the other, each padded to 8. A single part of the right length is
// used where it lies.
struct packed_image {
  std::vector<std::uint64_t> part_bytes;
  std::vector<std::byte> copy;
  std::span<const std::byte> bytes;
};

packed_image pack(const image_extent& extent) {
  packed_image packed;
  std::vector<std::span<const std::byte>> parts{extent.bytes};
  parts.insert(parts.end(), extent.prelinked.begin(), extent.prelinked.end());
  for (const auto& part : parts) packed.part_bytes.push_back(part.size());
  if (parts.size() == 1 && parts[0].size() % 8 == 0) {
    packed.bytes = parts[0];
    return packed;
  }
  for (const auto& part : parts) {
    packed.copy.insert(packed.copy.end(), part.begin(), part.end());
    packed.copy.resize(wire::padded_to_8(packed.copy.size()));
  }
  packed.bytes = packed.copy;
  return packed;
}

struct load_request {
  std::uint8_t kind = 0;  // 0 module, 1 library
  const image_extent* extent = nullptr;
  std::span<CUjit_option> options;
  void** option_values = nullptr;
  std::span<CUlibraryOption> library_options;
  void** library_option_values = nullptr;
};

// Registers the image and all its kernels. False if the reply contradicts itself.
bool register_image(const msg::load_image::reply& body, std::uint8_t kind) {
  process_state& s = state();
  const auto expected = kind == 1 ? kind_library : kind_module;
  if (wire::handle_kind_of(body.handle) != expected) return false;
  auto& table = kind == 1 ? s.libraries : s.modules;
  image_record* image = table.make(wire::handle_index(body.handle));
  if (image == nullptr || body.parameter_counts.size != body.kernels.size) return false;

  std::string_view names(reinterpret_cast<const char*>(body.kernel_names.data),
                         body.kernel_names.size);
  std::lock_guard lock(image->mutex);
  image->context = kind == 1 ? 0 : self().context_index();
  image->kernels.clear();
  image->by_name.clear();
  image->derived.clear();
  std::size_t next_parameter = 0;
  for (std::size_t i = 0; i < body.kernels.size; ++i) {
    kernel_details details;
    details.name = names.substr(0, names.find('\0'));
    names.remove_prefix(std::min(names.size(), details.name.size() + 1));
    details.image = body.handle;
    const std::size_t count = body.parameter_counts[i];
    if (count > body.parameter_offsets.size - next_parameter ||
        count > body.parameter_bytes.size - next_parameter)
      return false;
    for (std::size_t p = 0; p < count; ++p, ++next_parameter)
      details.parameters.push_back(
          {body.parameter_offsets[next_parameter], body.parameter_bytes[next_parameter]});
    image->by_name[details.name] = image->kernels.size();
    image->kernels.emplace_back(details.name, body.kernels[i]);
    if (learn_kernel(body.kernels[i], std::move(details)) == nullptr) return false;
  }
  image->id.store(body.handle, std::memory_order_release);
  return true;
}

CUresult load(const load_request& wanted, std::uint64_t& handle) {
  const image_extent& extent = *wanted.extent;
  if (extent.kind == image_kind::none) {
    log_debug("device code refused: {}", extent.problem);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  if (wanted.options.size() > load_options_max || wanted.library_options.size() > load_options_max)
    return CUDA_ERROR_INVALID_VALUE;
  jit_options jit;
  if (const CUresult r = jit.read(wanted.options, wanted.option_values); r != CUDA_SUCCESS)
    return r;
  std::vector<std::int32_t> numbers;
  std::vector<std::uint64_t> values;
  for (std::size_t i = 0; i < wanted.library_options.size(); ++i) {
    if (wanted.library_options[i] == CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE)
      return refuse("the library option that passes a table of host functions");
    numbers.push_back(static_cast<std::int32_t>(wanted.library_options[i]));
    values.push_back(wanted.library_option_values != nullptr
                         ? reinterpret_cast<std::uint64_t>(wanted.library_option_values[i])
                         : 0);
  }

  const packed_image packed = pack(extent);
  msg::load_image::request q;
  q.kind = wanted.kind;
  q.wrapper_version = extent.wrapper_version;
  q.part_bytes = {packed.part_bytes.data(), static_cast<std::uint32_t>(packed.part_bytes.size())};
  q.library_options = {numbers.data(), static_cast<std::uint32_t>(numbers.size())};
  q.library_option_values = {values.data(), static_cast<std::uint32_t>(values.size())};
  q.image_bytes = packed.bytes.size();
  jit.put_into(q);
  jit.put_logs_into(q);
  wire::transfer transfer;
  if (packed.bytes.size() <= wire::limits::inline_payload_bytes_max)
    q.image = {packed.bytes.data(), packed.bytes.size()};
  else
    transfer.send = packed.bytes;

  const auto a = transact<msg::load_image>(q, transfer);
  jit.take_from(a.body);
  if (a.result != CUDA_SUCCESS) {
    if (!a.body.error_log.empty())
      log_debug("the driver refused device code: {}", a.body.error_log);
    return a.result;
  }
  if (!register_image(a.body, wanted.kind)) {
    detail::reply_is_malformed("load_image");
    return CUDA_ERROR_UNKNOWN;
  }
  handle = a.body.handle;
  return CUDA_SUCCESS;
}

void retire(image_record& image) {
  process_state& s = state();
  std::lock_guard lock(image.mutex);
  const auto forget = [&s](std::uint64_t id) {
    auto& table = wire::handle_kind_of(id) == kind_kernel ? s.kernels : s.functions;
    kernel_record* k = table.find(wire::handle_index(id));
    auto expected = id;
    if (k != nullptr) k->id.compare_exchange_strong(expected, 0, std::memory_order_acq_rel);
  };
  for (const auto& [name, id] : image.kernels) forget(id);
  for (const auto id : image.derived) forget(id);
  image.kernels.clear();
  image.by_name.clear();
  image.derived.clear();
}

CUresult load_module_extent(CUmodule* module, const image_extent& extent,
                            std::span<CUjit_option> options, void** values) {
  load_request wanted;
  wanted.extent = &extent;
  wanted.options = options;
  wanted.option_values = values;
  std::uint64_t handle = 0;
  const CUresult r = load(wanted, handle);
  if (r == CUDA_SUCCESS) *module = handle_from<CUmodule>(handle);
  return r;
}

CUresult unload(image_record* image, std::uint64_t id, errors_first order) {
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  msg::unload_image::request q;
  q.handle = id;
  const CUresult r = transact<msg::unload_image>(q, {}, order).result;
  if (r != CUDA_SUCCESS) return r;
  auto expected = id;
  if (!image->id.compare_exchange_strong(expected, 0)) return CUDA_ERROR_INVALID_HANDLE;
  retire(*image);
  forget_globals_of(id);
  forget_all_cached();
  return CUDA_SUCCESS;
}

}  // namespace

CUresult read_image_file(const char* path, std::vector<char>& text) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  if (file.bad()) return CUDA_ERROR_OPERATING_SYSTEM;
  text.push_back(0);  // a PTX file has no NUL of its own
  return CUDA_SUCCESS;
}

kernel_record* find_kernel(CUkernel kernel) {
  return find_in(state().kernels, kind_kernel, id_of(kernel));
}
image_record* find_module(CUmodule module) {
  return find_in(state().modules, kind_module, id_of(module));
}
image_record* find_library(CUlibrary library) {
  return find_in(state().libraries, kind_library, id_of(library));
}

kernel_record* find_function(CUfunction function) {
  const auto id = id_of(function);
  return wire::handle_kind_of(id) == kind_kernel ? find_in(state().kernels, kind_kernel, id)
                                                 : find_in(state().functions, kind_function, id);
}

kernel_record* learn_kernel(std::uint64_t id, kernel_details details) {
  process_state& s = state();
  const auto kind = wire::handle_kind_of(id);
  if (kind != kind_kernel && kind != kind_function) return nullptr;
  kernel_record* k = (kind == kind_kernel ? s.kernels : s.functions).make(wire::handle_index(id));
  if (k == nullptr || k->id.load(std::memory_order_acquire) == id) return k;
  details.parameter_bytes = parameter_block_bytes(details.parameters);
  k->accepted.forget();
  k->attributes.forget();
  k->layout_asked.store(false, std::memory_order_relaxed);
  const auto* fresh = new kernel_details(std::move(details));
  delete k->details.exchange(fresh, std::memory_order_acq_rel);
  k->id.store(id, std::memory_order_release);
  return k;
}

void forget_modules_of(std::uint32_t context) {
  process_state& s = state();
  for (std::uint32_t i = 0;; ++i) {
    image_record* image = s.modules.find(i);
    if (image == nullptr) break;  // the server mints densely
    {
      std::lock_guard lock(image->mutex);
      if (image->context != context || image->id.exchange(0, std::memory_order_acq_rel) == 0)
        continue;
    }
    retire(*image);
  }
}

CUresult load_module(CUmodule* module, const void* image) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return load_module_extent(module, measure_image(image), {}, nullptr);
}

CUresult load_module_from_fatbin(CUmodule* module, const void* fatbin_header) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (module == nullptr || fatbin_header == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return load_module_extent(module, measure_fatbin(fatbin_header), {}, nullptr);
}

void noticed(const msg::cuFuncSetAttribute::request& q) {
  if (kernel_record* k = find_function(handle_from<CUfunction>(q.hfunc))) k->accepted.forget();
  attribute_memory::forget_everywhere();  // it may be a kernel's function
}
void noticed(const msg::cuKernelSetAttribute::request& q) {
  if (kernel_record* k = find_kernel(handle_from<CUkernel>(q.kernel))) k->accepted.forget();
}

namespace custom {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return load_module(module, image);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return load_module(module, fatCubin);
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                            CUjit_option* options, void** optionValues) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (module == nullptr || image == nullptr ||
      (numOptions != 0 && (options == nullptr || optionValues == nullptr)))
    return CUDA_ERROR_INVALID_VALUE;
  return load_module_extent(module, measure_image(image), {options, numOptions}, optionValues);
}

CUresult cuModuleLoad(CUmodule* module, const char* fname) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (module == nullptr || fname == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<char> text;
  if (const CUresult r = read_image_file(fname, text); r != CUDA_SUCCESS) return r;
  return load_module_extent(module, measure_image(text.data(), text.size()), {}, nullptr);
}

CUresult cuModuleUnload(CUmodule hmod) {
  return unload(find_module(hmod), id_of(hmod), errors_first::yes);
}

namespace {
CUresult load_library(CUlibrary* library, const image_extent& extent, load_request wanted) {
  wanted.kind = 1;
  wanted.extent = &extent;
  std::uint64_t handle = 0;
  const CUresult r = load(wanted, handle);
  if (r == CUDA_SUCCESS) *library = handle_from<CUlibrary>(handle);
  return r;
}
}  // namespace

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                           void** jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption* libraryOptions, void** libraryOptionValues,
                           unsigned int numLibraryOptions) {
  if (library == nullptr || code == nullptr || (numJitOptions != 0 && jitOptions == nullptr) ||
      (numLibraryOptions != 0 && libraryOptions == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  load_request wanted;
  wanted.options = {jitOptions, numJitOptions};
  wanted.option_values = jitOptionsValues;
  wanted.library_options = {libraryOptions, numLibraryOptions};
  wanted.library_option_values = libraryOptionValues;
  return load_library(library, measure_image(code), wanted);
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                               void** jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption* libraryOptions, void** libraryOptionValues,
                               unsigned int numLibraryOptions) {
  if (library == nullptr || fileName == nullptr || (numJitOptions != 0 && jitOptions == nullptr) ||
      (numLibraryOptions != 0 && libraryOptions == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<char> text;
  if (const CUresult r = read_image_file(fileName, text); r != CUDA_SUCCESS) return r;
  load_request wanted;
  wanted.options = {jitOptions, numJitOptions};
  wanted.option_values = jitOptionsValues;
  wanted.library_options = {libraryOptions, numLibraryOptions};
  wanted.library_option_values = libraryOptionValues;
  return load_library(library, measure_image(text.data(), text.size()), wanted);
}

CUresult cuLibraryUnload(CUlibrary library) {
  // Legal in a poisoned context: the runtime unloads its libraries before it resets a device.
  return unload(find_library(library), id_of(library), errors_first::no);
}

}  // namespace custom
}  // namespace gpuwire::shim
