// SPDX-License-Identifier: Apache-2.0
#include "module.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "guard.hpp"
#include "image.hpp"
#include "scheduler.hpp"

namespace gpuwire::softgpu {
namespace {

constexpr std::uint64_t variable_align_min = 16;

std::shared_ptr<const program> compile(const image& source, jit_options& options) {
  const std::uint64_t begin_ns = monotonic_ns();
  const auto elapsed_ms = [&] {
    return static_cast<float>(static_cast<double>(monotonic_ns() - begin_ns) / 1e6);
  };
  const auto fail = [&](CUresult code, const std::string& message) {
    options.finish("gpuwire soft GPU: " + message + "\n", elapsed_ms());
    if (!options.wants_error_log()) {
      std::fprintf(stderr, "gpuwire soft GPU: module not loaded: %s\n", message.c_str());
    }
    refuse(code);
  };
  if (source.result != CUDA_SUCCESS) fail(source.result, source.message);

  const std::vector<std::string_view> texts(source.texts.begin(), source.texts.end());
  auto compiled = ptx::compile(texts);
  if (const auto* error = std::get_if<ptx::compile_error>(&compiled))
    fail(code_of(error->kind), error->message);
  auto made = std::make_shared<program>();
  made->code = std::get<std::shared_ptr<const ptx::program>>(std::move(compiled));
  const auto all_kernels = made->code->kernels();
  for (std::uint32_t at = 0; at < all_kernels.size(); ++at)
    made->kernels.emplace(all_kernels[at].name, at);
  const auto all_variables = made->code->variables();
  for (std::uint32_t at = 0; at < all_variables.size(); ++at) {
    made->variables.emplace(all_variables[at].name, at);
  }
  options.finish({}, elapsed_ms());
  return made;
}

// Lays the variables of one kind out in one allocation and notes their addresses.
enum class variable_kind { plain, constant, managed };

void place_variables(module& into, variable_kind kind) {
  const bool constant = kind == variable_kind::constant;
  const bool managed = kind == variable_kind::managed;
  const auto variables = into.code->code->variables();
  std::uint64_t bytes = 0;
  std::vector<std::pair<std::size_t, std::uint64_t>> offsets;
  for (std::size_t at = 0; at < variables.size(); ++at) {
    const auto& variable = variables[at];
    if (variable.constant != constant || variable.managed != managed) continue;
    const std::uint64_t align = std::max<std::uint64_t>(variable.align, variable_align_min);
    bytes = (bytes + align - 1) / align * align;
    offsets.emplace_back(at, bytes);
    bytes += std::max<std::uint64_t>(variable.bytes, 1);
    require(bytes <= (1ull << 40), CUDA_ERROR_OUT_OF_MEMORY);
  }
  if (offsets.empty()) return;
  allocation_request request;
  request.bytes = bytes;
  request.kind = memory_kind::module;
  request.writable = !constant;
  request.managed = managed;
  request.context_id = into.owner->id;
  auto block = memory_table::instance().allocate(into.owner->on, request);
  require(block.has_value(), CUDA_ERROR_OUT_OF_MEMORY);
  into.blocks.push_back(*block);
  std::memset(reinterpret_cast<void*>(block->base), 0, bytes);
  for (const auto& [at, offset] : offsets) into.variable_addresses[at] = block->base + offset;
}

void initialise_variables(const module& into) {
  const auto variables = into.code->code->variables();
  for (std::size_t at = 0; at < variables.size(); ++at) {
    const auto& variable = variables[at];
    auto* start = reinterpret_cast<std::byte*>(into.variable_addresses[at]);
    const std::uint64_t given = std::min<std::uint64_t>(variable.initial.size(), variable.bytes);
    if (given > 0) std::memcpy(start, variable.initial.data(), given);
    for (const auto& pointer : variable.relocations) {
      const auto target = into.code->variables.find(pointer.target);
      require(target != into.code->variables.end() && variable.bytes >= sizeof(std::uint64_t) &&
                  pointer.offset <= variable.bytes - sizeof(std::uint64_t),
              CUDA_ERROR_INVALID_PTX);
      const std::uint64_t address =
          into.variable_addresses[target->second] + static_cast<std::uint64_t>(pointer.addend);
      std::memcpy(start + pointer.offset, &address, sizeof address);
    }
  }
}

}  // namespace

CUresult code_of(ptx::compile_error_kind kind) {
  switch (kind) {
    case ptx::compile_error_kind::unsupported_version:
      return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    case ptx::compile_error_kind::no_entry_target:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case ptx::compile_error_kind::syntax:
    case ptx::compile_error_kind::unknown_instruction:
    case ptx::compile_error_kind::unresolved_symbol:
      return CUDA_ERROR_INVALID_PTX;
  }
  return CUDA_ERROR_INVALID_PTX;
}

module_table& modules() {
  static auto* table = new module_table;
  return *table;
}
function_table& functions() {
  static auto* table = new function_table;
  return *table;
}
library_table& libraries() {
  static auto* table = new library_table;
  return *table;
}
kernel_table& kernels() {
  static auto* table = new kernel_table;
  return *table;
}

function_settings::function_settings(const ptx::kernel_info& kernel) {
  const int room = static_cast<int>(limits::shared_bytes_per_block) -
                   static_cast<int>(kernel.static_shared_bytes);
  dynamic_shared_bytes_max = std::max(room, 0);
}

module::~module() {
  for (const auto& block : blocks) memory_table::instance().remove_exactly(block);
}

std::shared_ptr<const program> load_program(const void* image, jit_options& options) {
  require(image != nullptr);
  return compile(read_image(image), options);
}

std::shared_ptr<const program> load_program_file(const char* path, jit_options& options) {
  require(path != nullptr);
  return compile(read_image_file(path), options);
}

std::shared_ptr<module> instantiate(std::shared_ptr<const program> code, context& in,
                                    bool of_library) {
  auto made = std::make_shared<module>();
  made->owner = in.shared_from_this();
  made->code = std::move(code);
  made->of_library = of_library;
  made->variable_addresses.resize(made->code->code->variables().size());
  for (const auto kind : {variable_kind::plain, variable_kind::constant, variable_kind::managed})
    place_variables(*made, kind);
  initialise_variables(*made);
  made->handle = modules().mint();
  modules().insert(made->handle, made);
  return made;
}

void unload(const std::shared_ptr<module>& which) {
  scheduler::instance().synchronise(*which->owner);
  which->owner->flush_print();
  functions().remove_if([&](const function& candidate) { return candidate.in == which; });
  modules().remove(which->handle);
}

std::shared_ptr<function> function_of_module(const std::shared_ptr<module>& in, std::uint32_t index,
                                             std::shared_ptr<function_settings> settings) {
  std::lock_guard lock(in->mutex);
  auto& handle = in->function_handles[index];
  if (handle != nullptr) {
    auto known = functions().find(handle);
    require(known != nullptr, CUDA_ERROR_INVALID_HANDLE);
    return known;
  }
  auto made = std::make_shared<function>();
  made->owner = in->owner;
  made->in = in;
  made->index = index;
  made->settings =
      settings ? std::move(settings) : std::make_shared<function_settings>(made->info());
  made->handle = functions().mint();
  handle = made->handle;
  functions().insert(made->handle, made);
  return made;
}

std::shared_ptr<module> instance_of(library& which, context& in) {
  std::lock_guard lock(which.mutex);
  auto& instance = which.instances[in.id];
  if (!instance) instance = instantiate(which.code, in, true);
  return instance;
}

std::shared_ptr<function_settings> settings_of(library& which, std::uint32_t index,
                                               int device_ordinal) {
  std::lock_guard lock(which.mutex);
  auto& settings = which.settings[{index, device_ordinal}];
  if (!settings) settings = std::make_shared<function_settings>(which.code->code->kernels()[index]);
  return settings;
}

std::shared_ptr<function> function_of_kernel(const kernel& which, context& in) {
  auto instance = instance_of(*which.in, in);
  return function_of_module(instance, which.index,
                            settings_of(*which.in, which.index, in.on.ordinal));
}

void forget_instances_of(const context& ended) {
  // Modules of libraries are in the table of modules too; the library's own reference must go as
  // well.
  libraries().for_each([&](library& each) {
    std::lock_guard lock(each.mutex);
    each.instances.erase(ended.id);
  });
}

std::shared_ptr<module> module_of(CUmodule handle) {
  auto found = modules().find(handle);
  require(found != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return found;
}

std::shared_ptr<library> library_of(CUlibrary handle) {
  auto found = libraries().find(handle);
  require(found != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return found;
}

std::shared_ptr<kernel> kernel_of(CUkernel handle) {
  auto found = kernels().find(handle);
  require(found != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return found;
}

std::shared_ptr<function> function_of(CUfunction handle) {
  if (auto found = functions().find(handle)) return found;
  auto named = kernel_of(reinterpret_cast<CUkernel>(handle));
  return function_of_kernel(*named, *live_context());
}

ptx::dim3 required_cluster(const ptx::kernel_info& info, const function_settings& settings) {
  if (info.required_cluster.x != 0) return info.required_cluster;
  const auto part = [&](std::size_t axis) {
    return static_cast<std::uint32_t>(settings.cluster[axis].load());
  };
  if (part(0) == 0 || part(1) == 0 || part(2) == 0) return {0, 0, 0};
  return {part(0), part(1), part(2)};
}

int function_attribute(const ptx::kernel_info& info, const program& code,
                       const function_settings& settings, CUfunction_attribute attribute) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return static_cast<int>(info.threads_per_block_max);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return static_cast<int>(info.static_shared_bytes);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: {
      std::uint64_t bytes = 0;
      for (const auto& variable : code.code->variables())
        bytes += variable.constant ? variable.bytes : 0;
      return static_cast<int>(bytes);
    }
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return static_cast<int>(info.local_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return static_cast<int>(info.register_count);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      // CUB chooses its launch shapes by this, so they must be those that the kernel was compiled
      // for.
      return static_cast<int>(info.target);
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return limits::compute_major * 10 + limits::compute_minor;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return settings.dynamic_shared_bytes_max;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return settings.carveout;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      return 0;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      return info.required_cluster.x != 0;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      return static_cast<int>(required_cluster(info, settings).x);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      return static_cast<int>(required_cluster(info, settings).y);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return static_cast<int>(required_cluster(info, settings).z);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return settings.non_portable_cluster;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return settings.cluster_policy;
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

void set_function_attribute(const ptx::kernel_info& info, function_settings& settings,
                            CUfunction_attribute attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      const int room = static_cast<int>(limits::shared_bytes_per_block_optin) -
                       static_cast<int>(info.static_shared_bytes);
      require(value >= 0 && value <= room);
      settings.dynamic_shared_bytes_max = value;
      return;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      require(value >= -1 && value <= 100);
      settings.carveout = value;
      return;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      // What the text says stands.
      require(info.required_cluster.x == 0 && value >= 0);
      settings
          .cluster[static_cast<std::size_t>(attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)] =
          value;
      return;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      require(value == 0 || value == 1);
      settings.non_portable_cluster = value != 0;
      return;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      require(value >= CU_CLUSTER_SCHEDULING_POLICY_DEFAULT &&
              value <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
      settings.cluster_policy = value;
      return;
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

CUresult parameter_info(const ptx::kernel_info& info, std::size_t index, std::size_t* offset,
                        std::size_t* bytes) {
  require(offset != nullptr && index < info.parameters.size());
  *offset = info.parameters[index].offset;
  if (bytes != nullptr) *bytes = info.parameters[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace gpuwire::softgpu
